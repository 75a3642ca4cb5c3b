/** Updates in the About pane: every state, every failure, and that nothing happens without a click. */
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { noticeView } from "../chat/notices";
import { catalog } from "../i18n/catalogs";
import { chooseLanguage } from "../i18n";
import { useIpc, type UpdateProblem, type UpdateRefusal, type UpdatesView } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { update } from "../ipc/fake/updates";
import { app, startApp } from "../state/app.svelte";
import { violations } from "./parts/axe";
import { currentPane } from "./current-pane.svelte";
import { Live } from "./live.svelte";
import Settings from "./Settings.svelte";
import { updateProblemText } from "./updates";

let fake: FakeIpc;
let stop: () => void;

beforeEach(() => {
  stop?.();
  app.updates = null;
  app.notices = [];
  fake = new FakeIpc();
  useIpc(fake);
  chooseLanguage("en");
});

async function open(change: Partial<UpdatesView> = {}) {
  fake.setUpdates(change);
  stop = await startApp();
  currentPane.pane = "about";
  const drawn = render(Settings, { live: new Live() });
  await screen.findByText("Updates");
  return drawn;
}

function called(): string[] {
  return fake.calls.map((call) => call.name).filter((name) => /update/i.test(name) && name !== "updates");
}

const button = (name: string) => screen.getByRole("button", { name });

describe("updates", () => {
  it("are off, say what is asked and when, and are checked by a click", async () => {
    await open();
    const on = screen.getByRole("switch", { name: "Check for updates", checked: false });
    screen.getByText(/^Asks github.com for the newest version at every start and once a day/);
    screen.getByText("Not checked yet");
    expect(called()).toEqual([]);
    await fireEvent.click(on);
    expect(fake.calls.at(-1)).toEqual({ name: "updateSettings", values: [{ general: { check_for_updates: true } }] });
    await fireEvent.click(button("Check Now"));
    expect(called().at(-1)).toBe("checkForUpdate");
    await screen.findByText("Version 0.2.0 is available");
    screen.getByText("Responses of hybrid models start sooner after an edit.");
    screen.getByRole("heading", { name: "Models" });
  });

  it("are downloaded and installed by one click each, and can be canceled", async () => {
    const { container } = await open({ offer: update(), checked_at: Date.now() });
    await fireEvent.click(button("Download"));
    const bar = await screen.findByRole("progressbar");
    fake.setUpdates({ step: { step: "downloading", done_bytes: 30_700_000 } });
    await waitFor(() => expect(bar.getAttribute("aria-valuenow")).toBe("50"));
    expect(screen.queryByRole("button", { name: "Check Now" })).toBeNull();
    expect(await violations(container)).toEqual([]);
    await fireEvent.click(button("Cancel"));
    await screen.findByRole("button", { name: "Download" });
    fake.setUpdates({ step: { step: "ready" } });
    await fireEvent.click(await screen.findByRole("button", { name: "Restart and Update" }));
    await screen.findByText("Waiting for responses to finish");
    button("Cancel");
    expect(called()).toEqual(["downloadUpdate", "cancelUpdate", "installUpdate"]);
    fake.setUpdates({ step: { step: "installing" } });
    await screen.findByText("Installing version 0.2.0");
    expect(screen.queryByRole("button", { name: "Cancel" })).toBeNull();
  });

  it("say that there is nothing newer, and that an older version is not installed", async () => {
    await open({ checked_at: Date.now() });
    screen.getByText("Transom is up to date");
    screen.getByText(/^Last check: /);
    fake.setUpdates({ older: "0.0.9" });
    await screen.findByText(/^github.com offers version 0.0.9, which is older/);
    expect(screen.queryByRole("button", { name: "Download" })).toBeNull();
  });

  it("of a copy that can't be updated have one sentence and no button", async () => {
    await open({ refusal: "no_server", host: "" });
    screen.getByText("This build doesn’t update itself.");
    expect(screen.queryByRole("button", { name: "Check Now" })).toBeNull();
    expect(screen.queryByRole("switch")).toBeNull();
    for (const refusal of ["not_installed", "not_in_applications", "package", "not_writable"] satisfies UpdateRefusal[]) {
      fake.setUpdates({ refusal });
      await screen.findByText(catalog("en", "settings")[`updates.refusal.${refusal}`] as string);
    }
  });

  it("show why they failed, and can be tried again", async () => {
    await open({ offer: update(), checked_at: Date.now(), problem: { problem: "interrupted" } });
    expect(screen.getByRole("alert").textContent).toBe("The download was interrupted. Try again.");
    button("Download");
  });

  it("have a sentence for every failure", () => {
    const problems: UpdateProblem[] = [
      { problem: "unreachable" }, { problem: "refused" }, { problem: "insecure" }, { problem: "malformed" },
      { problem: "no_file" }, { problem: "interrupted" }, { problem: "bad_signature" }, { problem: "other_version" },
      { problem: "not_permitted" }, { problem: "not_restored", path: "/Users/me/Transom.app" },
      { problem: "disk_full", needed_bytes: 0, free_bytes: 0 },
      { problem: "disk_full", needed_bytes: 5e8, free_bytes: 1e8 }, { problem: "failed", detail: "a reason" },
    ];
    const texts = problems.map((problem) => updateProblemText(problem, "github.com"));
    expect(new Set(texts).size).toBe(problems.length);
    expect(texts.at(-2)).toMatch(/needs (500 MB|477 MB), and/);
    expect(texts.at(-1)).toContain("a reason");
    for (const text of texts) expect(text).not.toContain("{");
  });

  it("that are available are announced in the chat, with a way to them", () => {
    const view = noticeView({ code: "update_available", detail: "", values: { version: "0.2.0" } });
    expect(view).toMatchObject({ text: "Transom 0.2.0 is available.", action: { label: "Show Update" } });
  });
});
