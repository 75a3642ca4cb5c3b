// Elements by role and accessible name: the parts of the ARIA rules that these pages use.
const implicit = (e) => {
  const tag = e.tagName.toLowerCase();
  if (tag === "input") {
    const kinds = { checkbox: "checkbox", radio: "radio", range: "slider", search: "searchbox",
      number: "spinbutton", button: "button", submit: "button" };
    return kinds[e.type] ?? "textbox";
  }
  if (tag === "a") return e.hasAttribute("href") ? "link" : "generic";
  if (tag === "select") return e.multiple || e.size > 1 ? "listbox" : "combobox";
  const roles = { button: "button", textarea: "textbox", nav: "navigation", main: "main",
    aside: "complementary", dialog: "dialog", li: "listitem", ul: "list", ol: "list",
    article: "article", h1: "heading", h2: "heading", h3: "heading", h4: "heading",
    summary: "button", option: "option", progress: "progressbar", meter: "meter",
    table: "table", form: "form", section: "region", fieldset: "group", img: "img" };
  return roles[tag] ?? "generic";
};
const role = (e) => e.getAttribute("role")?.split(" ")[0] ?? implicit(e);
const clean = (text) => (text ?? "").replace(/\s+/g, " ").trim();
const name = (e) => {
  const by = e.getAttribute("aria-labelledby");
  if (by) {
    const texts = by.split(/\s+/).map((id) => clean(document.getElementById(id)?.textContent));
    if (clean(texts.join(" "))) return clean(texts.join(" "));
  }
  if (clean(e.getAttribute("aria-label"))) return clean(e.getAttribute("aria-label"));
  if (e.labels?.length) return clean([...e.labels].map((l) => l.textContent).join(" "));
  if (["textbox", "searchbox", "combobox", "slider"].includes(role(e)) === false) {
    if (clean(e.innerText ?? e.textContent)) return clean(e.innerText ?? e.textContent);
  }
  return clean(e.getAttribute("title") ?? e.getAttribute("alt") ?? e.getAttribute("placeholder"));
};
const visible = (e) =>
  e.getClientRects().length > 0 &&
  getComputedStyle(e).visibility !== "hidden" &&
  !e.closest("[aria-hidden=true], [inert]");
const all = (wanted, pattern) => {
  const matches = new RegExp(pattern, "i");
  const is = new RegExp(`^(${wanted})$`);
  return [...document.querySelectorAll("*")].filter(
    (e) => is.test(role(e)) && visible(e) && matches.test(name(e)),
  );
};
