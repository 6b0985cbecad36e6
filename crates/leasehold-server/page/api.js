// Requests to our own server, and to no other.

export const session = { open: false, role: null, csrf: undefined };

export class Refused extends Error {
  constructor(status, body) {
    super((body && body.message) || "the server answered " + status);
    this.status = status;
    this.word = body && body.error;
  }
}

export async function call(method, path, body) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (session.csrf) headers["x-leasehold-csrf"] = session.csrf;
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "same-origin" });
  } catch {
    throw new Refused(0, { message: "the server does not answer; look whether it was done, and try again" });
  }
  const text = await response.text();
  let answer;
  try { answer = text ? JSON.parse(text) : undefined; } catch { answer = undefined; }
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

export async function whoAmI() {
  Object.assign(session, { role: null, csrf: undefined, name: undefined, key: undefined }, await call("GET", "/api/v1/auth/session"));
  return session;
}

export async function logIn(key) {
  Object.assign(session, { csrf: undefined }, await call("POST", "/api/v1/auth/session", { key }));
}

export async function logOut() {
  try { await call("DELETE", "/api/v1/auth/session"); } finally { Object.assign(session, { role: null, csrf: undefined, name: undefined, key: undefined }); }
}

export const mayAct = () => ["operator", "admin"].includes(session.role);
