/** Checks the accessibility of every state of the settings window and of the quick prompt. */
import axe from "axe-core";
import { unmount } from "svelte";
import { afterEach, describe, expect, it } from "vitest";
import { modelsStates } from "../gallery/models-states";
import { promptStates } from "../gallery/prompt-states";
import { settingsStates } from "../gallery/settings-states";
import { states } from "../gallery/states";
import { claim } from "../gallery/steps";
import { zoomedStates } from "../gallery/zoomed-states";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { app } from "../state/app.svelte";
import { NEED_LAYOUT } from "./parts/axe";

const all = [modelsStates, settingsStates, promptStates].flatMap((states) => Object.entries(states));

afterEach(() => {
  document.body.replaceChildren();
  app.status = null;
  chooseLanguage("en");
});

describe("axe finds no violation in", () => {
  it.each(all)("%s", async (name, state) => {
    const fake = new FakeIpc();
    useIpc(fake);
    const target = document.createElement("div");
    document.body.append(target);
    document.title = "Transom";
    const drawn = await state.show(fake, target);
    await claim(name, state.shows);
    const rules = Object.fromEntries(NEED_LAYOUT.map((rule) => [rule, { enabled: false }]));
    const found = await axe.run(document, { rules });
    const wrong = found.violations.map(
      (one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ; ")}`,
    );
    await unmount(drawn);
    expect(wrong).toEqual([]);
  });

  it("has a unique name for every state", () => {
    const names = all.map(([name]) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it("enlarges only states that exist", () => {
    const names = [...Object.keys(states), ...all.map(([name]) => name)];
    for (const { of } of Object.values(zoomedStates)) expect(names).toContain(of);
    expect(names.filter((name) => name in zoomedStates)).toEqual([]);
  });
});
