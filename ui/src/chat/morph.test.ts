import { describe, expect, it } from "vitest";
import { morph } from "./morph";

function nodes(html: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

describe("a growing end of a text", () => {
  const steps = [
    "<p>One</p>",
    "<p>One two</p>",
    "<p>One two <strong>three</strong></p>",
    "<p>One two <strong>three four</strong> five</p><p>Six</p>",
    "<p>One two <em>three</em></p>",
    '<ul class="more"><li>a</li></ul>',
    '<ul class="more"><li class="task">a</li><li>b</li></ul>',
    "text",
    "text and <code></code>",
    "text and <code>more</code>",
  ];

  it("equals a replacement, and so do its neighbors", () => {
    const root = document.createElement("div");
    root.append(...nodes("<h1>Before</h1>").childNodes);
    let there: ChildNode[] = [...nodes(steps[0]!).childNodes];
    root.append(...there, document.createElement("hr"));
    for (const step of steps) {
      there = morph(there, nodes(step));
      expect(root.innerHTML).toBe(`<h1>Before</h1>${step}<hr>`);
    }
  });

  it("keeps growing elements and text nodes", () => {
    const root = document.createElement("div");
    root.append(...nodes("<p>One <b>two</b> thr</p>").childNodes);
    const [p] = root.children;
    const [, b, text] = p!.childNodes;
    morph([p!], nodes("<p>One <b>two</b> three</p>"));
    expect(root.firstChild).toBe(p);
    expect(p!.childNodes[1]).toBe(b);
    expect(p!.childNodes[2]).toBe(text);
  });
});
