// Asking the person something in a dialog.

/**
 * Opens it, until it is closed.
 * @param {HTMLDialogElement} dialog
 * @returns {Promise<string>} what it was closed with; "" where the person declined
 */
export async function ask(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue;
}
