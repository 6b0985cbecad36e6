// Logging in with a key. The key goes to the server once and is kept nowhere here.

import { logIn } from "./api.js";
import { $, el, fill } from "./dom.js";

let after = () => {};
export const onLogIn = (listener) => { after = listener; };

export function showLogIn(why, then) {
  const dialog = $("login");
  const wrong = el("p", { class: "error", role: "alert" });
  const key = el("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
  const go = el("button", { type: "submit", class: "main" }, "Log in");
  const form = el("form", { method: "dialog", onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      await logIn(key.value);
      key.value = "";
      dialog.close();
      after();
      if (then) then();
    } catch (error) {
      wrong.textContent = error.message;
      go.disabled = false;
      key.focus();
    }
  } }, el("h2", { id: "login-title" }, "Log in"), el("p", {}, why || "This control plane asks for a key."), el("label", {}, "API key ", key),
    el("p", { class: "help" }, "`leasehold keys create --role operator` makes one. To look, the role read is enough."), wrong, el("div", { class: "buttons" }, go));
  fill(dialog, form);
  if (!dialog.open) dialog.showModal();
  key.focus();
}
