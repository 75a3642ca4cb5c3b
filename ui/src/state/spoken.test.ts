import { expect, it } from "vitest";
import { spoken } from "./spoken";

it("returns the text of blocks, formulas as TeX, and only the language of code", () => {
  const text = (html: string) => spoken({ is_inside: false, html });
  expect(text("<p>One <em>two</em>\n<a href='x'>three</a>.</p>\n")).toBe("One two three.");
  expect(text("<p>so <math alttext=\"x^2\"><msup><mi>x</mi><mn>2</mn></msup></math></p>")).toBe("so x^2");
  expect(text("<tr><td>a</td><td>b</td></tr>")).toBe("a, b");
  expect(text('<span class="lines">let x</span>')).toBe("");
  expect(text("<ul></ul>")).toBe("");
  const code = '<figure class="code"><figcaption><span class="language">rust</span></figcaption><pre><code></code></pre></figure>';
  expect(text(code)).toBe("Code block, rust");
  expect(text(code.replace("rust", ""))).toBe("Code block");
});
