import { describe, expect, it } from "vitest";
import { useIpc, type Update } from "../ipc";
import { FakeIpc, pieces } from "../ipc/fake";
import { Answer } from "./answer.svelte";

async function start(text = "One two three. Four five.\n\nSix seven.") {
  const ipc = new FakeIpc();
  useIpc(ipc);
  ipc.script = { reasoning: "Let me think.", answer: pieces(text), rate: 0 };
  const { answer: id } = await ipc.ask(null, "Count", [], false);
  const announced: string[] = [];
  const answer = new Answer(id, { finished: (texts) => announced.push(...texts) });
  await answer.follow();
  return { ipc, answer, announced, player: ipc.player() };
}

describe("a growing response", () => {
  it("reasons first, then writes, and announces only finished paragraphs", async () => {
    const { answer, player, announced } = await start();
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
    expect(announced).toEqual([]);
    player.write(1);
    answer.flush();
    expect(answer.blocks).toHaveLength(2);
    expect(announced).toEqual(["One two three. Four five."]);
    player.write(1);
    player.end({ ending: "stop" });
    answer.flush();
    expect(announced).toEqual(["One two three. Four five.", "Six seven."]);
  });

  it("keeps the object of an unchanged block", async () => {
    const { answer, player } = await start();
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

  it("merges updates between two frames", async () => {
    const { answer, player } = await start();
    const drawn: string[] = [];
    for (let word = 0; word < 5; word++) {
      player.write(1);
      drawn.push([...answer.reasoning, ...answer.blocks].map((block) => block.html).join(""));
    }
    expect(new Set(drawn)).toEqual(new Set([""]));
    answer.flush();
    expect(answer.blocks.map((block) => block.html)).toEqual(["<p>One two </p>"]);
  });

  it("changes and removes blocks", async () => {
    const { answer } = await start();
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

  it("ignores updates after it stopped following", async () => {
    const { answer, player } = await start();
    answer.stopFollowing();
    player.write(5);
    answer.flush();
    expect(answer.blocks).toEqual([]);
  });
});
