/** Responses as the app renders them, for states that show all elements. */
import type { Piece } from "../ipc/fake/text";

const span = (name: string, text: string) => `<span class="hl-${name}">${text}</span>`;

const rust = [
  `${span("keyword", "use")} std::collections::${span("type", "HashMap")};`,
  "",
  span("comment", "/// Counts the words of a text, in any order."),
  `${span("keyword", "fn")} ${span("function", "count")}(text: &amp;${span("type", "str")}) -&gt; ${span("type", "HashMap")}&lt;&amp;${span("type", "str")}, ${span("type", "usize")}&gt; {`,
  `    ${span("keyword", "let mut")} counts = ${span("type", "HashMap")}::${span("function", "new")}();`,
  `    ${span("keyword", "for")} word ${span("keyword", "in")} text.${span("function", "split_whitespace")}() {`,
  `        *counts.${span("function", "entry")}(word).${span("function", "or_insert")}(${span("number", "0")}) += ${span("number", "1")};`,
  "    }",
  `    ${span("function", "println!")}(${span("string", "\"{} words\"")}, counts.len());`,
  "    counts",
  "}",
].join("\n");

export function code(language: string, html: string): Piece {
  return {
    source: "```\n…\n```",
    html: `<figure class="code" data-language="${language}"><figcaption><span class="language">${language}</span><button class="copy" type="button"></button></figcaption><pre><code class="more">${html}\n</code></pre></figure>`,
  };
}

export const codeAnswer: Piece[] = [
  { words: "A `HashMap` keeps one count per word. `entry` looks the word up once, and `or_insert` begins at nought where it is new:" },
  code("rust", rust),
  { words: "It runs in **linear time**. The keys borrow from the text, so nothing is copied." },
  { source: "- …", html: "<ul class=\"more\"><li>For words in any case, call <code>to_lowercase</code> first; then the keys must be <code>String</code>s.</li><li>For sorted output, use a <code>BTreeMap</code>.</li></ul>" },
  { words: "More in [the standard library's documentation](https://doc.rust-lang.org/std/collections/struct.HashMap.html)." },
];

export const tableAnswer: Piece[] = [
  { words: "Here are the three, side by side:" },
  {
    source: "| … |",
    html: "<div class=\"table\" tabindex=\"0\"><table><thead><tr><th>Planet</th><th class=\"align-right\">Mass (10²⁴ kg)</th><th class=\"align-right\">Gravity (m/s²)</th><th>Day</th></tr></thead><tbody class=\"more\"><tr><td>Mercury</td><td class=\"align-right\">0.330</td><td class=\"align-right\">3.7</td><td>176 Earth days</td></tr><tr><td>Earth</td><td class=\"align-right\">5.97</td><td class=\"align-right\">9.8</td><td>24 hours</td></tr><tr><td>Mars</td><td class=\"align-right\">0.642</td><td class=\"align-right\">3.7</td><td>24.7 hours</td></tr></tbody></table></div>",
  },
  { source: "", html: "<p>Gravity at the surface follows from mass and radius<sup class=\"footnote-reference\"><a href=\"#fn-1\">1</a></sup>:</p>" },
  {
    source: "",
    html: "<p><math display=\"block\"><mi>g</mi><mo>=</mo><mfrac><mrow><mi>G</mi><mi>M</mi></mrow><msup><mi>r</mi><mn>2</mn></msup></mfrac><mo>≈</mo><mn>9.81</mn><mspace width=\"0.3em\"></mspace><mtext>m/s²</mtext></math></p>",
  },
  { source: "", html: "<blockquote><p>All models are wrong, but some are useful.</p></blockquote>" },
  { source: "", html: "<ul class=\"more\"><li class=\"task\"><input type=\"checkbox\" disabled checked aria-label=\"Look up the masses\"> Look up the masses</li><li class=\"task\"><input type=\"checkbox\" disabled aria-label=\"Check the days\"> Check the days</li></ul>" },
  { source: "", html: "<div class=\"footnote\" id=\"fn-1\"><sup class=\"footnote-label\">1</sup><p>Newton’s law of gravitation, with <math><mi>r</mi></math> the planet’s radius.</p></div>" },
];

const cell = (text: string, names: string) => `<mtd class="${names}"><mi>${text}</mi></mtd>`;

export const marksAnswer: Piece[] = [
  { source: "", html: "<blockquote class=\"alert-note\">\n<p>A note beside the text.</p>\n</blockquote>" },
  { source: "", html: "<blockquote class=\"alert-tip\">\n<p>A tip that saves a step.</p>\n</blockquote>" },
  { source: "", html: "<blockquote class=\"alert-important\">\n<p>What must not be missed.</p>\n</blockquote>" },
  { source: "", html: "<blockquote class=\"alert-warning\">\n<p>This cannot be undone.</p>\n</blockquote>" },
  { source: "", html: "<blockquote class=\"alert-caution\">\n<p>Mind the hot oven.</p>\n</blockquote>" },
  { source: "", html: `<p><math display="block"><mtable><mtr>${cell("2x", "cell-right")}${cell("= 6", "cell-left")}${cell("y", "cell-right cell-apart")}${cell("= 4", "cell-left")}</mtr><mtr>${cell("x", "cell-right")}${cell("= 3", "cell-left")}${cell("y²", "cell-right cell-apart")}${cell("= 16", "cell-left")}</mtr></mtable></math></p>` },
  { source: "", html: `<p><math display="block"><mtable><mtr>${cell("a", "rule-right rule-bottom")}${cell("b", "rule-bottom")}</mtr><mtr>${cell("c", "rule-right")}${cell("d", "")}</mtr></mtable></math></p>` },
  { source: "", html: "<p><math display=\"block\" class=\"boxed\"><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></math></p>" },
  { source: "", html: "<p>Here <math class=\"boxed\"><mi>x</mi><mo>=</mo><mn>3</mn></math> is boxed, <code class=\"math-error\">\\frac{1</code> cannot be set, and <code class=\"math-pending\">\\sqrt{x</code> is still written.</p>" },
  { source: "", html: "<p class=\"raw\">&lt;details&gt;\n  &lt;summary&gt;More&lt;/summary&gt;\n&lt;/details&gt;</p>" },
  { source: "", html: "<p><span class=\"image\" data-address=\"https://example.com/cat.png\">A gray cat on a wall</span></p>" },
];

export const prose = `Light from the sun holds all colors. On its way through the air it meets molecules that are far smaller than its waves, and these scatter **short waves much more than long ones**: blue some ten times as much as red.

So blue light reaches your eye from every direction of the sky, while the rest comes almost straight from the sun. In the evening the light crosses more air; most of the blue has been scattered away by then, and what is left is red.

Violet is scattered even more, but the sun sends less of it, the upper air takes some, and our eyes see it poorly.`;

export const thoughts =
  "The person wants a short explanation. I should name Rayleigh scattering, say why blue and not violet, and mention the evening. Three short paragraphs will do.";
