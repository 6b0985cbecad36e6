"use strict";
const api = JSON.parse(document.getElementById("document").textContent);
const METHODS = ["get", "post", "put", "patch", "delete"];

// Text only ever becomes text nodes: nothing of the document is taken for markup.
function node(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== undefined && child !== ""));
  return made;
}

// Paragraphs, and `code` in them.
function prose(text) {
  return (text || "").split(/\n\s*\n/).filter(Boolean).map((part) =>
    node("p", {}, ...part.split("`").map((piece, at) => (at % 2 ? node("code", {}, piece) : piece))));
}

function inline(text) {
  return (text || "").split("`").map((piece, at) => (at % 2 ? node("code", {}, piece) : piece));
}

const refName = (schema) => schema.$ref && schema.$ref.split("/").pop();

function joined(parts, between) {
  return parts.flatMap((part, at) => (at ? [between, ...part] : part));
}

// The type of a schema in one line, with links to what has a name.
function type(schema) {
  if (schema === undefined || schema === true) return ["anything"];
  const name = refName(schema);
  if (name) return [node("a", { href: "#schema-" + name }, name)];
  const choices = schema.oneOf || schema.anyOf;
  if (choices) return joined(choices.map(type), " or ");
  if (schema.allOf) return joined(schema.allOf.map(type), " and ");
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(", ")];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  const types = [].concat(schema.type || []);
  if (types.includes("array")) return ["list of ", ...type(schema.items), types.includes("null") ? " or null" : ""];
  if (types.includes("object") && typeof schema.additionalProperties === "object") return ["map to ", ...type(schema.additionalProperties)];
  return [types.join(" or ") || "anything"];
}

// What else a schema says.
function bounds(schema) {
  const words = { minimum: "at least", maximum: "at most", minLength: "characters from", maxLength: "to", pattern: "pattern", default: "default", format: "format" };
  return Object.entries(words).filter(([key]) => schema && schema[key] !== undefined)
    .map(([key, word]) => word + " " + (typeof schema[key] === "string" ? schema[key] : JSON.stringify(schema[key]))).join(", ");
}

function row(name, required, schema, description) {
  const limits = bounds(schema);
  return node("tr", {},
    node("td", {}, node("code", {}, name), required ? node("span", { class: "note" }, " required") : ""),
    node("td", {}, node("span", { class: "type" }, ...type(schema), limits ? ", " + limits : ""), ...inline(description || (schema && schema.description))));
}

// The fields of a schema, those of its parts included.
function fields(schema) {
  const parts = schema.allOf || [];
  const own = Object.entries(schema.properties || {}).map(([name, of]) => row(name, (schema.required || []).includes(name), of));
  return parts.flatMap((part) => (part.$ref ? [node("tr", {}, node("td", {}, "all of"), node("td", {}, ...type(part)))] : fields(part))).concat(own);
}

function shape(schema) {
  const choices = schema.oneOf || schema.anyOf;
  const rows = choices ? [] : fields(schema);
  if (choices) {
    return choices.flatMap((choice, at) => {
      const own = choice.$ref ? [] : fields(choice);
      return [node("p", { class: "note" }, at ? "or " : "either ", ...(own.length ? [] : type(choice)), choice.description ? " " + choice.description : ""),
        ...(own.length ? [node("table", {}, ...own)] : [])];
    });
  }
  return rows.length ? [node("table", {}, ...rows)] : [node("p", { class: "type" }, ...type(schema), bounds(schema) ? ", " + bounds(schema) : "")];
}

function section(title, rows) {
  return rows.length ? [node("h3", {}, title), node("table", {}, ...rows)] : [];
}

function contents(content, prefix) {
  return Object.entries(content || {}).map(([kind, of]) => node("span", { class: "type" }, prefix + kind + ": ", ...type(of.schema)));
}

function operation(path, method, of) {
  const parameters = (of.parameters || []).map((one) => row(one.name, one.required, one.schema, one.in + (one.description ? ": " + one.description : "")));
  const body = of.requestBody ? [node("h3", {}, "Body"), ...contents(of.requestBody.content, "")] : [];
  const answers = Object.entries(of.responses || {}).map(([status, answer]) => node("tr", {},
    node("td", {}, node("code", {}, status)),
    node("td", {}, ...inline(answer.description), ...contents(answer.content, ""),
      ...Object.entries(answer.headers || {}).map(([name, header]) => node("span", { class: "type" }, name + ": " + (header.description || ""))))));
  const made = node("details", { id: method + path },
    node("summary", {}, node("span", { class: "method " + method }, method.toUpperCase()), node("span", { class: "path" }, path), node("span", { class: "about" }, of.summary || "")),
    node("div", { class: "inside" }, ...prose(of.description), ...section("Parameters", parameters), ...body, ...section("Answers", answers)));
  made.dataset.words = [method, path, of.summary, of.description].join(" ").toLowerCase();
  return made;
}

function schema(name, of) {
  const made = node("details", { id: "schema-" + name },
    node("summary", {}, node("span", { class: "path" }, name)),
    node("div", { class: "inside" }, ...prose(of.description), ...shape(of)));
  made.dataset.words = [name, of.description].join(" ").toLowerCase();
  return made;
}

const sections = (api.tags || []).map((tag) => ({ ...tag, items: [] }));
for (const [path, item] of Object.entries(api.paths)) {
  for (const method of METHODS.filter((one) => item[one])) {
    const home = sections.find((one) => one.name === (item[method].tags || [])[0]);
    if (home) home.items.push(operation(path, method, item[method]));
  }
}
const schemas = Object.entries((api.components || {}).schemas || {}).map(([name, of]) => schema(name, of));
sections.push({ name: "schemas", description: "What bodies consist of", items: schemas });

const list = document.getElementById("list");
const tags = document.getElementById("tags");
document.getElementById("title").append(node("small", {}, " " + api.info.version));
document.getElementById("about").append(...inline(api.info.description), " As a document: ", node("a", { href: "openapi.json" }, "openapi.json"), ".");
for (const one of sections.filter((section) => section.items.length)) {
  one.made = node("section", { id: "part-" + one.name }, node("h2", {}, one.name), node("p", {}, ...inline(one.description)), ...one.items);
  list.append(one.made);
  tags.append(node("a", { href: "#part-" + one.name }, one.name + " (" + one.items.length + ")"));
}

document.getElementById("filter").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of sections.filter((section) => section.made)) {
    for (const item of one.items) item.hidden = !words.every((word) => item.dataset.words.includes(word));
    one.made.hidden = one.items.every((item) => item.hidden);
  }
});

// Whoever follows a link to something closed wants to see it.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") { target.hidden = false; target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", reveal);
reveal();
