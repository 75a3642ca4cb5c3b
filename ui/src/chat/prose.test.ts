import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Block } from "../ipc";
import { settle } from "../state/settle";
import { Prose } from "./prose";

function block(index: number, html: string, continues = false): Block {
  return { index, html, continues };
}

const none = { continues: false, html: "" };

describe("a growing text", () => {
  it("draws each block once and replaces only the tail", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    let blocks = [block(0, "<p>One</p>")];
    prose.update(blocks, { continues: false, html: "<p>Tw</p>" });
    const first = root.firstChild;
    prose.update(blocks, { continues: false, html: "<p>Two</p>" });
    blocks = settle(blocks, [block(1, "<p>Two.</p>")]);
    prose.update(blocks, none);
    expect(root.innerHTML).toBe("<p>One</p><p>Two.</p>");
    expect(root.firstChild).toBe(first);
  });

  it("puts continuations and their tail into the open end of the group", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    let blocks = [block(0, '<figure><pre><code class="more">a\n</code></pre></figure>')];
    prose.update(blocks, { continues: true, html: "b" });
    expect(root.querySelector("code")!.textContent).toBe("a\nb");
    const code = root.querySelector("code");
    blocks = settle(blocks, [block(1, "<span>b\n</span>", true)]);
    prose.update(blocks, { continues: true, html: "c" });
    blocks = settle(blocks, [block(2, "c\n", true)]);
    blocks = settle(blocks, [block(3, "<p>after</p>")]);
    prose.update(blocks, none);
    expect(root.querySelector("code")).toBe(code);
    expect(root.innerHTML).toBe(
      '<figure><pre><code class="more">a\n<span>b\n</span>c\n</code></pre></figure><p>after</p>',
    );
  });

  it("takes rows and items alone, as tables and lists continue", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    prose.update([
      block(0, '<table><tbody class="more"><tr><td>1</td></tr></tbody></table>'),
      block(1, "<tr><td>2</td></tr>", true),
      block(2, '<ul class="more"><li>a</li></ul>'),
      block(3, "<li>b</li>", true),
    ], none);
    expect(root.querySelectorAll("tbody > tr")).toHaveLength(2);
    expect(root.querySelectorAll("ul > li")).toHaveLength(2);
  });

  it("replaces a block and what continues it in place, and nothing else", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    let blocks = [
      block(0, "<p>before</p>"), block(1, '<ul class="more"><li>a</li></ul>'),
      block(2, "<li>b</li>", true), block(3, "<p>after</p>"),
    ];
    prose.update(blocks, none);
    const [before, , after] = [...root.children];
    blocks = settle(blocks, [
      block(1, '<ul class="more"><li><p>a</p></li></ul>'), block(2, "<li><p>b</p></li>", true),
    ]);
    prose.update(blocks, none);
    expect(root.innerHTML).toBe(
      '<p>before</p><ul class="more"><li><p>a</p></li><li><p>b</p></li></ul><p>after</p>',
    );
    expect(root.children[0]).toBe(before);
    expect(root.children[2]).toBe(after);
  });

  it("draws another text from the start", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    prose.update([block(0, "<p>a</p>"), block(1, "<p>b</p>")], none);
    prose.update([block(0, "<p>c</p>")], none);
    expect(root.innerHTML).toBe("<p>c</p>");
  });

  it("keeps the element of its unfinished end while that grows", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    const blocks = [block(0, "<p>One</p>")];
    prose.update(blocks, { continues: false, html: "<p>Tw</p>" });
    const [, tail] = root.children;
    prose.update(blocks, { continues: false, html: "<p>Two <em>th</em></p>" });
    expect(root.children[1]).toBe(tail);
    expect(root.innerHTML).toBe("<p>One</p><p>Two <em>th</em></p>");
    prose.update(blocks, none);
    expect(root.innerHTML).toBe("<p>One</p>");
  });

  it("parts long code, and its text stays what came", () => {
    const root = document.createElement("div");
    const prose = new Prose(root);
    let blocks = [block(0, '<figure><pre><code class="more">0\n</code></pre></figure>')];
    const line = (index: number) => `<b>${index}</b>;\n`;
    for (let index = 1; index <= 500; index++) {
      prose.update(blocks, { continues: true, html: line(index).slice(0, 6) });
      blocks = settle(blocks, [block(index, line(index), true)]);
      prose.update(blocks, none);
    }
    const code = root.querySelector("code")!;
    const whole = Array.from({ length: 500 }, (_, index) => `${index + 1};\n`).join("");
    expect(code.textContent).toBe(`0\n${whole}`);
    expect(code.querySelectorAll(".lines").length).toBeGreaterThan(2);
    for (const part of code.querySelectorAll(".lines")) expect(part.childNodes.length).toBeLessThan(205);
  });

  it("has no style that makes a browser lay out all of it anew for each block", () => {
    const styles = readFileSync("src/style/prose.css", "utf8").replace(/\/\*[^]*?\*\//g, "");
    expect(styles).toContain(".prose");
    expect(styles).not.toMatch(/:(empty|has|only-|nth-last)/);
  });
});
