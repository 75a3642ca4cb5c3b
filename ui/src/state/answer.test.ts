import { describe, expect, it } from "vitest";
import { useIpc, type Update } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { Answer } from "./answer.svelte";

async function begun(text = "One two three. Four five.\n\nSix seven.") {
  const ipc = new FakeIpc();
  useIpc(ipc);
  ipc.script = { reasoning: "Let me think.", answer: pieces(text), rate: 0 };
  const { answer: id } = await ipc.ask(null, "Count", "", false);
  const said: string[] = [];
  const answer = new Answer(id, { sentences: (more) => said.push(...more) });
  await answer.follow();
  return { ipc, answer, said, player: ipc.player() };
}

describe("an answer that grows", () => {
  it("first thinks, then writes, and says only finished sentences", async () => {
    const { answer, player, said } = await begun();
    player.write(2);
    answer.flush();
    expect(answer.section).toBe("reasoning");
    expect(answer.reasoningTail.html).toContain("Let me");
    player.write(3);
    answer.flush();
    expect(answer.section).toBe("answer");
    expect(answer.reasoning.map((block) => block.html)).toEqual(["<p>Let me think.</p>"]);
    expect(answer.tail.html).toBe("<p>One two </p>");
    expect(said).toEqual([]);
    player.write(3);
    answer.flush();
    expect(answer.blocks).toHaveLength(1);
    expect(answer.tail.html).toBe("");
    expect(said).toEqual(["One two three.", "Four five."]);
  });

  it("keeps a block the same object whatever follows", async () => {
    const { answer, player } = await begun();
    player.write(8);
    answer.flush();
    const first = answer.blocks[0];
    player.write(2);
    player.end({ ending: "stop" });
    answer.flush();
    expect(answer.blocks[0]).toBe(first);
    expect(answer.blocks).toHaveLength(2);
    expect(answer.isWriting).toBe(false);
    expect(answer.message?.text).toBe("One two three. Four five.\n\nSix seven.");
  });

  it("joins updates that come between two frames", async () => {
    const { answer, player } = await begun();
    const drawn: string[] = [];
    for (let word = 0; word < 5; word++) {
      player.write(1);
      drawn.push(answer.tail.html + answer.reasoningTail.html);
    }
    expect(new Set(drawn)).toEqual(new Set([""]));
    answer.flush();
    expect(answer.tail.html).toBe("<p>One two </p>");
  });

  it("puts a block that comes again in the place of the old one", async () => {
    const { answer, ipc } = await begun();
    const tell = (update: Update) =>
      (answer as unknown as { queue(update: Update): void }).queue(update);
    const text = (index: number, html: string): Update => ({
      update: "text", section: "answer", blocks: [{ index, continues: false, html }],
      tail: { continues: false, html: "" }, sentences: [], tokens_per_second: null,
    });
    tell(text(0, "<ul><li>a</li></ul>"));
    tell(text(1, "<p>b</p>"));
    tell(text(0, "<ul><li><p>a</p></li></ul>"));
    answer.flush();
    expect(answer.blocks.map((block) => block.html)).toEqual(["<ul><li><p>a</p></li></ul>", "<p>b</p>"]);
    expect(ipc.calls.map((call) => call.name)).toContain("follow");
  });

  it("hears nothing more once it is left", async () => {
    const { answer, player } = await begun();
    answer.leave();
    player.write(5);
    answer.flush();
    expect(answer.tail.html).toBe("");
  });
});
