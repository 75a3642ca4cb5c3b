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
  const answer = new Answer(id, { finished: (texts) => said.push(...texts) });
  await answer.follow();
  return { ipc, answer, said, player: ipc.player() };
}

describe("an answer that grows", () => {
  it("first thinks, then writes, and says only finished paragraphs", async () => {
    const { answer, player, said } = await begun();
    player.write(2);
    answer.flush();
    expect(answer.section).toBe("reasoning");
    expect(answer.reasoning.map((block) => block.html)).toEqual(["<p>Let me </p>"]);
    player.write(3);
    answer.flush();
    expect(answer.section).toBe("answer");
    expect(answer.reasoning.map((block) => block.html)).toEqual(["<p>Let me think.</p>"]);
    expect(answer.blocks.map((block) => block.html)).toEqual(["<p>One two </p>"]);
    player.write(3);
    answer.flush();
    expect(answer.blocks).toHaveLength(1);
    expect(said).toEqual([]);
    player.write(1);
    answer.flush();
    expect(answer.blocks).toHaveLength(2);
    expect(said).toEqual(["One two three. Four five."]);
    player.write(1);
    player.end({ ending: "stop" });
    answer.flush();
    expect(said).toEqual(["One two three. Four five.", "Six seven."]);
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
      drawn.push([...answer.reasoning, ...answer.blocks].map((block) => block.html).join(""));
    }
    expect(new Set(drawn)).toEqual(new Set([""]));
    answer.flush();
    expect(answer.blocks.map((block) => block.html)).toEqual(["<p>One two </p>"]);
  });

  it("changes and removes blocks as it is told", async () => {
    const { answer } = await begun();
    const emit = (update: Update) =>
      (answer as unknown as { queue(update: Update): void }).queue(update);
    const text = (n_blocks: number, ...html: [number, string][]): Update => ({
      update: "text", section: "answer", tokens_per_second: null,
      change: { n_blocks, blocks: html.map(([index, html]) => [index, { is_inside: false, html }]) },
    });
    emit(text(3, [0, "<p>a</p>"], [1, "<p>b</p>"], [2, "<p>c</p>"]));
    emit(text(2, [0, "<p>d</p>"]));
    answer.flush();
    expect(answer.blocks.map((block) => block.html)).toEqual(["<p>d</p>", "<p>b</p>"]);
  });

  it("hears nothing more once it is left", async () => {
    const { answer, player } = await begun();
    answer.stopFollowing();
    player.write(5);
    answer.flush();
    expect(answer.blocks).toEqual([]);
  });
});
