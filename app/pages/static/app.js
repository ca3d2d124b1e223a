// The page's entry: it wires what the modules offer.

import { takeToken } from "./door.js";
import { startHeader } from "./header.js";
import { startKeyDialog } from "./key.js";
import { startLive } from "./live.js";
import { startModels } from "./models.js";
import { startPlayground } from "./playground.js";
import { startStart } from "./start.js";
import { startStatus } from "./status.js";
import { startViews } from "./views.js";
import { byId } from "./dom.js";

// Before the views read the fragment; again when such a link is opened in this very tab.
takeToken();
window.addEventListener("hashchange", takeToken);

startKeyDialog();
startHeader();
startModels();
startStart();
startPlayground(byId("playground"));
startLive();
startViews();
startStatus();
