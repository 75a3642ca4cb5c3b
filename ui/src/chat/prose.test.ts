import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Block } from "../ipc";
import { changed } from "../state/change";
import { Prose } from "./prose";

function block(html: string, is_inside = false): Block {
  return { is_inside, html };
}

function drawn(...blocks: Block[]) {
  const root = document.createElement("div");
  const prose = new Prose(root);
  prose.update(blocks);
  return { root, prose };
}

const code = "<figure><pre><code></code></pre></figure>";

describe("a growing text", () => {
  it("keeps the elements of unchanged blocks and of the growing block", () => {
    const { root, prose } = drawn(block("<p>One</p>"), block("<p>Tw</p>"));
    const [first, second] = root.children;
    prose.update([block("<p>One</p>"), block("<p>Two <em>th</em></p>")]);
    prose.update([block("<p>One</p>"), block("<p>Two.</p>"), block("<p>Three</p>")]);
    expect(root.innerHTML).toBe("<p>One</p><p>Two.</p><p>Three</p>");
    expect([...root.children].slice(0, 2)).toEqual([first, second]);
    expect(root.children[0]).toBe(first);
    expect(root.children[1]).toBe(second);
  });

  it("keeps the selection while it grows", () => {
    const { root, prose } = drawn(block("<p>One</p>"), block("<p>Two</p>"));
    document.body.append(root);
    const selection = document.getSelection()!;
    selection.selectAllChildren(root.firstElementChild!);
    let blocks = [block("<p>One</p>"), block("<p>Two</p>")];
    for (let n = 2; n < 20; n++) {
      blocks = changed(blocks, { n_blocks: n + 1, blocks: [[n, block(`<p>${n}</p>`)]] });
      prose.update(blocks);
    }
    expect(selection.toString()).toBe("One");
    root.remove();
  });

  it("puts lines, rows and items into the code, table or list before them", () => {
    const { root } = drawn(
      block(code), block('<span class="lines">a\n</span>', true), block('<span class="lines">b</span>', true),
      block("<div><table><thead></thead><tbody></tbody></table></div>"),
      block("<tr><td>1</td></tr>", true), block("<tr><td>2</td></tr>", true),
      block("<ul></ul>"), block("<li>a</li>", true), block("<li>b<ul><li>c</li></ul></li>", true),
      block("<p>after</p>"),
    );
    expect(root.querySelector("code")!.textContent).toBe("a\nb");
    expect(root.querySelectorAll("tbody > tr")).toHaveLength(2);
    expect([...root.children].map((one) => one.localName)).toEqual(["figure", "div", "ul", "p"]);
    expect(root.querySelectorAll("div > ul > li")).toHaveLength(2);
  });

  it("keeps the lines of long code while it grows", () => {
    const { root, prose } = drawn(block(code), block('<span class="lines">0</span>', true));
    const [first] = root.querySelectorAll(".lines");
    let blocks = [block(code), block('<span class="lines">0</span>', true)];
    for (let n = 2; n < 100; n++) {
      const lines = block(`<span class="lines">${n}\n</span>`, true);
      blocks = changed(blocks, { n_blocks: n + 1, blocks: [[n, lines]] });
      prose.update(blocks);
    }
    expect(root.querySelectorAll(".lines")).toHaveLength(99);
    expect(root.querySelector(".lines")).toBe(first);
  });

  it("replaces only the changed block", () => {
    const before = [
      block("<p>before</p>"), block("<ul></ul>"), block("<li>a</li>", true),
      block("<li>b</li>", true), block("<p>after</p>"),
    ];
    const { root, prose } = drawn(...before);
    const [first, , last] = [...root.children];
    prose.update(changed(before, {
      n_blocks: 5,
      blocks: [[2, block("<li><p>a</p></li>", true)], [3, block("<li><p>b</p></li>", true)]],
    }));
    expect(root.innerHTML).toBe(
      "<p>before</p><ul><li><p>a</p></li><li><p>b</p></li></ul><p>after</p>",
    );
    expect(root.children[0]).toBe(first);
    expect(root.children[2]).toBe(last);
  });

  it("can become any other text", () => {
    const texts = [
      [block("<p>a</p>"), block("<p>b</p>")],
      [block("<ul></ul>"), block("<li>a</li>", true), block("<li>b</li>", true)],
      [block("<ol></ol>"), block("<li>a</li>", true), block("<p>c</p>")],
      [block(code), block("a", true)],
      [block("<p>a</p>"), block("<ul></ul>"), block("<li>a</li>", true)],
      [],
    ];
    for (const from of texts) {
      for (const to of texts) {
        const { root, prose } = drawn(...from);
        prose.update(to);
        expect(root.innerHTML).toBe(drawn(...to).root.innerHTML);
      }
    }
  });

  it("has no style that makes a browser lay out the whole text for each block", () => {
    const styles = readFileSync("src/style/prose.css", "utf8").replace(/\/\*[^]*?\*\//g, "");
    expect(styles).toContain(".prose");
    expect(styles).not.toMatch(/:(empty|has|only-|nth-last)/);
  });
});
