/** Checks that each pane sends the right patches, and shows errors next to their settings. */
import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { chooseLanguage, t } from "../i18n";
import { NO_SETTINGS, useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { app, startApp } from "../state/app.svelte";
import { violations } from "../settings/parts/axe";
import { Live } from "./live.svelte";
import { PANES, type Pane } from "./pages";
import Settings from "./Settings.svelte";
import { currentPane } from "./current-pane.svelte";

let fake: FakeIpc;
let stop: () => void;

async function open(pane: Pane, setUp: (fake: FakeIpc) => void = () => {}) {
  setUp(fake);
  stop = await startApp();
  currentPane.pane = pane;
  currentPane.model = null;
  const drawn = render(Settings, { live: new Live() });
  await waitFor(() => expect(app.models.length).toBeGreaterThan(0));
  return drawn;
}

/** The patches that the app received. */
function patches(): unknown[] {
  return fake.calls.filter((call) => call.name === "updateSettings").map((call) => call.values[0]);
}

async function slide(name: RegExp, value: string) {
  const slider = screen.getByRole("slider", { name });
  await fireEvent.input(slider, { target: { value } });
}

beforeEach(() => {
  stop?.();
  fake = new FakeIpc();
  useIpc(fake);
  chooseLanguage("en");
});

describe("the model pane", () => {
  const id = "/models/Qwen3-4B-4bit";

  it("sends one patch for a moving slider, for the current model", async () => {
    await open("model");
    await slide(/^Temperature/, "0.3");
    await slide(/^Temperature/, "0.5");
    await waitFor(() => expect(patches()).toEqual([{ models: { [id]: { temperature: 0.5 } } }]));
  });

  it("takes typed numbers within the limits of the slider", async () => {
    await open("model");
    const field = screen.getByRole("textbox", { name: "Temperature" });
    await fireEvent.change(field, { target: { value: "2.5" } });
    await screen.findByText("Enter a number from 0 to 2.");
    expect(field.getAttribute("aria-invalid")).toBe("true");
    await fireEvent.change(field, { target: { value: "0,33" } });
    await waitFor(() => expect(patches()).toEqual([{ models: { [id]: { temperature: 0.33 } } }]));
    expect(screen.queryByText(/^Enter a number/)).toBeNull();
    const whole = screen.getByRole("textbox", { name: "Top-k" });
    await fireEvent.change(whole, { target: { value: "1.5" } });
    await screen.findByText("Enter a whole number from 0 to 200.");
  });

  it("shows the unit until a number is typed, and resets with an empty field", async () => {
    await open("model", (fake) => void fake.updateSettings({ models: { [id]: { context_length: 8192 } } }));
    const field = screen.getByRole<HTMLInputElement>("textbox", { name: "Context length" });
    expect(field.value).toBe("8,192 tokens");
    await fireEvent.focus(field);
    expect(field.value).toBe("8192");
    await fireEvent.change(field, { target: { value: "10000" } });
    await waitFor(() => expect(patches().at(-1)).toEqual({ models: { [id]: { context_length: 10_000 } } }));
    await fireEvent.blur(field);
    expect(field.value).toBe("10,000 tokens");
    await fireEvent.change(field, { target: { value: "" } });
    await waitFor(() => expect(patches().at(-1)).toEqual({ models: { [id]: { context_length: null } } }));
  });

  it("moves the fit with the slider before the app has replied", async () => {
    await open("model");
    await screen.findByText(/^Fits: 3\.7 GB/);
    await slide(/^Context length/, "0");
    await screen.findByText(/^Fits: 2\.7 GB/);
    await waitFor(() => expect(patches()).toEqual([{ models: { [id]: { context_length: 512 } } }]));
  });

  it("resets a value to the recommended one", async () => {
    await open("model", (fake) => void fake.updateSettings({ models: { [id]: { top_k: 5 } } }));
    await fireEvent.click(screen.getByRole("button", { name: "Reset Top-k to 20 (default)" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ models: { [id]: { top_k: null } } }));
  });

  it("changes KV cache, reasoning, system prompt and seed", async () => {
    await open("model");
    await fireEvent.change(screen.getByLabelText("KV cache"), { target: { value: "small" } });
    await fireEvent.click(within(screen.getByRole("radiogroup", { name: "Reasoning" })).getByText("Off"));
    await fireEvent.input(screen.getByLabelText("System prompt"), { target: { value: "Be brief." } });
    await fireEvent.blur(screen.getByLabelText("System prompt"));
    await fireEvent.input(screen.getByLabelText("Seed"), { target: { value: "42" } });
    await waitFor(() => expect(patches()).toEqual([
      { models: { [id]: { kv_cache: "small" } } },
      { models: { [id]: { thinking: false } } },
      { models: { [id]: { system_prompt: "Be brief." } } },
      { models: { [id]: { seed: 42 } } },
    ]));
  });

  it("does not send an invalid seed", async () => {
    await open("model");
    await fireEvent.input(screen.getByLabelText("Seed"), { target: { value: "many" } });
    await screen.findByText(/^Enter a whole number/);
    await fireEvent.blur(screen.getByLabelText("Seed"));
    expect(patches()).toEqual([]);
  });

  it("resets all settings of one model at once", async () => {
    await open("model", (fake) => void fake.updateSettings({ models: { [id]: { top_k: 5 } } }));
    await fireEvent.click(screen.getByRole("button", { name: "Reset All" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ models: { [id]: null } }));
  });

  it("shows the recommended values", async () => {
    await open("model");
    const slider = screen.getByRole("slider", { name: /^Temperature/ });
    expect(slider.getAttribute("aria-valuetext")).toBe("0.60 (default)");
    expect((slider as HTMLInputElement).value).toBe("0.6");
    const unknown = screen.getByRole("slider", { name: /^Repetition/ });
    expect(unknown.getAttribute("aria-valuetext")).toBe("Default");
  });

  it("shows the speed next to the fit", async () => {
    await open("model");
    await screen.findByText("21–30 tokens/s");
  });

  it("shows the settings of another model when it is selected", async () => {
    await open("model");
    await fireEvent.change(screen.getByLabelText("Model"),
      { target: { value: "/models/Mistral-Small-24B-Q4_K_M.gguf" } });
    await slide(/^Temperature/, "0.3");
    await waitFor(() => expect(patches()).toEqual([
      { models: { "/models/Mistral-Small-24B-Q4_K_M.gguf": { temperature: 0.3 } } },
    ]));
  });

  it("reverts a refused change and shows the reason next to it", async () => {
    await open("model", (fake) =>
      fake.refuse("updateSettings", { code: "invalid", field: `models.${id}.top_p`, reason: "too small" }));
    await slide(/^Top-p/, "0.05");
    await screen.findByText("Invalid value: too small");
    const slider = screen.getByRole("slider", { name: /^Top-p/ });
    await waitFor(() => expect(slider.getAttribute("aria-valuetext")).toBe("0.95 (default)"));
  });
});

describe("the behavior pane", () => {
  it("sends the idle unload in seconds, the budget in bytes, and keep loaded", async () => {
    await open("behavior");
    await slide(/^Unload after/, "5");
    await waitFor(() => expect(patches()).toEqual([{ behavior: { idle_unload_seconds: 300 } }]));
    await slide(/^Memory limit/, "8");
    await waitFor(() => expect(patches().at(-1)).toEqual({ behavior: { memory_budget_bytes: 8 * 2 ** 30 } }));
    await fireEvent.click(screen.getByRole("switch", { name: "Keep model loaded" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ behavior: { keep_loaded: true } }));
    expect(screen.queryByRole("slider", { name: /^Unload after/ })).toBeNull();
  });

  it("lists active limits above the collapsed table, which highlights their conditions", async () => {
    await open("behavior");
    await screen.findByText("No limits are active.");
    fake.setStatus({
      machine: { memory: "normal", thermal: "serious", is_low_power: false, is_on_battery: false, is_thrashing: false },
      limits: [{ limit: { limit: "answer_length", tokens: 1024 }, reason: "heat_serious" }],
    });
    await screen.findByText("Responses are limited to 1,024 tokens");
    const row = screen.getByText("High temperature").closest("tr")!;
    within(row).getByText("This is the case now.");
    expect(row.closest("details")?.open).toBe(false);
    expect(screen.queryByText("No limits are active.")).toBeNull();
  });

  it("ejects and pauses", async () => {
    await open("behavior");
    await fireEvent.click(screen.getByRole("button", { name: "Eject" }));
    await fireEvent.click(screen.getByRole("switch", { name: "Pause Transom" }));
    const done = fake.calls.filter((call) => ["eject", "pause"].includes(call.name));
    expect(done.map((call) => [call.name, ...call.values])).toEqual([["eject"], ["pause", true]]);
  });
});

describe("the general pane", () => {
  it("sends switches, appearance and language, and changes the language at once", async () => {
    await open("general");
    await fireEvent.click(screen.getByRole("switch", { name: "Open at login" }));
    await fireEvent.click(within(screen.getByRole("radiogroup", { name: "Appearance" })).getByText("Dark"));
    await fireEvent.change(screen.getByLabelText("Language"), { target: { value: "de" } });
    await waitFor(() => expect(patches()).toEqual([
      { general: { launch_at_login: true } }, { general: { appearance: "dark" } },
      { general: { language: "de" } },
    ]));
    await screen.findByRole("heading", { name: "Allgemein" });
  });

  it("shows the Dock switch only on a Mac", async () => {
    await open("general");
    expect(screen.getByRole("switch", { name: "Show in the Dock" })).toBeTruthy();
    cleanup();
    stop();
    await open("general", (fake) => (fake.aboutView = { ...fake.aboutView, platform: "linux" }));
    expect(screen.queryByRole("switch", { name: "Show in the Dock" })).toBeNull();
  });

  it("edits, adds, removes and restores saved prompts", async () => {
    await open("general");
    await fireEvent.click(screen.getByRole("button", { name: "Remove /fix" }));
    await waitFor(() => expect(names()).toEqual(["summarize", "translate", "explain"]));
    await fireEvent.click(screen.getByRole("button", { name: "Add" }));
    await waitFor(() => expect(names()).toEqual(["summarize", "translate", "explain", "new"]));
    const name = screen.getByLabelText("Name");
    await fireEvent.input(name, { target: { value: "explain" } });
    await screen.findByText("Another prompt already has this name.");
    await fireEvent.input(name, { target: { value: "/to verse" } });
    await waitFor(() => expect(names().at(-1)).toBe("to-verse"));
    await fireEvent.click(screen.getByRole("button", { name: "Restore Defaults" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ prompts: null }));
  });

  it("changes single values of a route, resets it, and turns it off", async () => {
    await open("general");
    expect(screen.queryByRole("button", { name: "Reset Translate" })).toBeNull();
    await fireEvent.click(screen.getByRole("button", { name: /^Translate/ }));
    await slide(/^Temperature/, "0.5");
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { temperature: 0.5 } } }));
    await slide(/^Earlier messages/, "25");
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { history: 0.25 } } }));
    // The built-in value is no change.
    await slide(/^Earlier messages/, "0");
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { history: null } } }));
    await slide(/^Attached text/, "60");
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { attached: 0.6 } } }));
    await slide(/^Attached text/, "40");
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { attached: null } } }));
    await fireEvent.change(screen.getByLabelText("Reasoning"), { target: { value: "model" } });
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { thinking: "model" } } }));
    const instructions = screen.getByLabelText<HTMLTextAreaElement>("Instructions");
    const builtIn = instructions.value;
    expect(builtIn).toContain("Translate");
    await fireEvent.input(instructions, { target: { value: "Rhyme." } });
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { instructions: "Rhyme." } } }));
    // The built-in text is no change, so a later version may improve it.
    await fireEvent.input(instructions, { target: { value: builtIn } });
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { instructions: null } } }));
    await fireEvent.click(screen.getByRole("switch", { name: "Recognize this task" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: { is_off: true } } }));
    await fireEvent.click(screen.getByRole("button", { name: "Reset Translate" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ routes: { translate: null } }));
    await waitFor(() => expect(screen.queryByRole("button", { name: "Reset Translate" })).toBeNull());
    expect(document.activeElement).toBe(screen.getByRole("button", { name: /^Translate/ }));
    await fireEvent.click(screen.getByRole("switch", { name: "Adapt to the task" }));
    await waitFor(() => expect(screen.queryByRole("button", { name: /^Translate/ })).toBeNull());
  });

  it("adds, edits and removes assistants", async () => {
    await open("general");
    screen.getByText("No assistants.");
    await fireEvent.click(screen.getByRole("button", { name: "Add Assistant" }));
    const name = screen.getByLabelText("Name");
    await fireEvent.input(name, { target: { value: " " } });
    await screen.findByText("Enter a name.");
    await fireEvent.input(name, { target: { value: "Poet" } });
    await fireEvent.input(screen.getByLabelText("Instructions"), { target: { value: "Answer in rhymes." } });
    await fireEvent.change(screen.getByLabelText("Reasoning"), { target: { value: "false" } });
    const settings = { ...NO_SETTINGS, instructions: "Answer in rhymes.", thinking: false };
    await waitFor(() => expect(patches().at(-1)).toEqual({ assistants: [{ name: "Poet", settings }] }));
    await fireEvent.click(screen.getByRole("button", { name: "Remove Poet" }));
    await waitFor(() => expect(patches().at(-1)).toEqual({ assistants: [] }));
  });

  function names(): string[] {
    const last = patches().at(-1) as { prompts?: { name: string }[] | null } | undefined;
    return last?.prompts?.map((prompt) => prompt.name) ?? [];
  }

  it("clears the history only after a confirmation", async () => {
    await open("general");
    await fireEvent.click(screen.getByRole("button", { name: "Clear History…" }));
    expect(fake.calls.some((call) => call.name === "clearHistory")).toBe(false);
    await fireEvent.click(screen.getByRole("button", { name: "Delete All" }));
    await screen.findByText("History cleared.");
    expect(fake.calls.some((call) => call.name === "clearHistory")).toBe(true);
  });
});

describe("the settings window", () => {
  it("opens the pane that the app requests, and moves between panes with arrow keys", async () => {
    await open("model");
    currentPane.open("model:starter");
    await screen.findByDisplayValue("Starter");
    currentPane.open("behavior");
    const tab = await screen.findByRole("tab", { name: "Performance", selected: true });
    await fireEvent.keyDown(tab, { key: "ArrowDown" });
    expect(document.activeElement?.textContent).toContain("Local API");
    await fireEvent.keyDown(window, { key: "6", metaKey: true });
    await screen.findByRole("tab", { name: "About", selected: true });
  });

  it("shows an error without a field at the top", async () => {
    await open("about", (fake) => fake.refuse("saveDiagnostics", { code: "storage", reason: "disk full" }));
    await fireEvent.click(screen.getByRole("button", { name: "Save…" }));
    await screen.findByText("Can’t save: disk full");
  });

  it("translates an error of the app's own files", async () => {
    const full = { code: "storage", kind: "full", reason: "transom.db: full" } as const;
    await open("about", (fake) => fake.refuse("saveDiagnostics", full));
    await fireEvent.click(screen.getByRole("button", { name: "Save…" }));
    await screen.findByText(t("chat.storage.full"));
  });

  it.each(PANES)("makes everything in the %s pane reachable with the keyboard", async (pane) => {
    const { container } = await open(pane);
    const controls = [...container.querySelectorAll<HTMLElement>("button, input, select, textarea, a")];
    expect(controls.length).toBeGreaterThan(4);
    for (const control of controls.filter((one) => one.tabIndex < 0)) {
      // Tab reaches one option of a group, arrow keys reach the others.
      const group = control.closest("[role=tablist], [role=radiogroup]");
      expect(group?.querySelector('[tabindex="0"]'), control.outerHTML).toBeTruthy();
    }
    expect(container.querySelector('[tabindex]:not([tabindex="0"], [tabindex="-1"])')).toBeNull();
  });

  it.each(PANES)("has no axe violation in the %s pane", async (pane) => {
    const { container } = await open(pane);
    await new Promise((drawn) => setTimeout(drawn, 60));
    expect(await violations(container)).toEqual([]);
  });
});

describe("errors of commands without a setting", () => {
  it("are shown at the top of the pane", async () => {
    await open("general");
    for (const [code, shown] of [
      ["storage", "the disk is full"], ["not_found", ""], ["invalid", "no such file"],
    ] as const) {
      app.dismiss();
      app.notify({ code, detail: shown, values: {} });
      await waitFor(() => expect(document.querySelector("[role=alert]")?.textContent).toContain(
        code === "not_found" ? t("settings.refused.not_found") : shown,
      ));
    }
  });
});
