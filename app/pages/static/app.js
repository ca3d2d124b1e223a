// The page's entry: it wires what the modules offer.

import { startHeader } from "./header.js";
import { startKeyDialog, takeToken } from "./key.js";
import { startLive } from "./live.js";
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
startStart();
startPlayground(byId("playground"));
startLive();
startViews();
startStatus();
