/** Tests models against the fake app: search, fit, download, use and removal. */
import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { noticeView } from "../chat/notices";
import { chooseLanguage } from "../i18n";
import { useIpc, type DropView } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { onDisk, hubError } from "../ipc/fake/catalog";
import { models } from "../ipc/fake/defaults";
import { Live } from "../settings/live.svelte";
import Settings from "../settings/Settings.svelte";
import { currentPane } from "../settings/current-pane.svelte";
import { app, attempt, startApp } from "../state/app.svelte";
import { modelSource } from "../state/model-source.svelte";

let fake: FakeIpc;
let stop: () => void;

async function open(setUp: (fake: FakeIpc) => void = () => {}) {
  setUp(fake);
  stop = await startApp();
  currentPane.pane = "models";
  const drawn = render(Settings, { live: new Live() });
  await waitFor(() => expect(app.models.length).toBeGreaterThan(0));
  await screen.findByRole("heading", { name: "Recommended models" });
  return drawn;
}

function called(name: string): unknown[][] {
  return fake.calls.filter((call) => call.name === name).map((call) => call.values);
}

/** The group with this heading. */
function group(name: string): HTMLElement {
  return screen.getByRole("heading", { name }).closest("section")!;
}

/** The row of a model in a group. */
function row(name: string, of: string): HTMLElement {
  return within(group(of)).getByText(name).closest("li")!;
}

beforeEach(() => {
  stop?.();
  modelSource.catalog = modelSource.drag = null;
  modelSource.dropped = [];
  modelSource.downloads = [];
  fake = new FakeIpc();
  useIpc(fake);
  chooseLanguage("en");
});

describe("installed models", () => {
  it("show their source, and can be selected, removed from the list and added", async () => {
    await open();
    within(group("Installed")).getByText("From LM Studio");
    await fireEvent.click(screen.getByRole("button", { name: "Use Mistral Small 24B" }));
    await fireEvent.click(screen.getByRole("button", { name: /^Remove old-model from/ }));
    await fireEvent.click(screen.getByRole("button", { name: "Add Folder…" }));
    const done = fake.calls.filter((call) => /Model$/.test(call.name));
    expect(done.map((call) => [call.name, call.values[0]])).toEqual([
      ["chooseModel", "/models/Mistral-Small-24B-Q4_K_M.gguf"],
      ["forgetModel", "/models/old-model"], ["addModel", "folder"],
    ]);
  });

  it("are removed only after a confirmation that shows the freed space", async () => {
    await open();
    await fireEvent.click(screen.getByRole("button", { name: "Remove Qwen3 4B · 4-bit…" }));
    screen.getByText(/frees 2\.3 GB/);
    screen.getByText(/switch to the starter/);
    expect(called("removeModel")).toEqual([]);
    await fireEvent.click(screen.getByRole("button", { name: "Remove" }));
    await screen.findByText("Removed Qwen3 4B · 4-bit and freed 2.3 GB.");
    expect(screen.queryByRole("button", { name: /^Remove Mistral/ })).toBeNull();
  });

  it("link to their settings", async () => {
    await open();
    await fireEvent.click(screen.getByRole("button", { name: "Mistral Small 24B settings" }));
    await screen.findByRole("heading", { name: "Model settings" });
    expect((screen.getByLabelText("Model") as HTMLSelectElement).value).toContain("Mistral");
  });
});

describe("the selected model", () => {
  it("says if it is no longer installed", async () => {
    await open((fake) => fake.setModels(models().map((model) => model.is_chosen
      ? { ...model, facts: null, is_missing: true,
          problem: { code: "not_found", file: "x", value: "", detail: "no model is called x" } } : model)));
    within(group("Installed")).getByText("No longer installed");
    expect(screen.queryByText(/no model is called/)).toBeNull();
  });
});

describe("the recommendations by memory size", () => {
  async function openTiers() {
    await fireEvent.click(screen.getByRole("button", { name: "Models by Memory Size…" }));
    const dialog = screen.getByRole("dialog", { name: "Models by memory size" });
    const table = await within(dialog).findByRole("table");
    return { dialog, rows: within(table).getAllByRole("row") };
  }

  it("are loaded only on request, and mark this computer's row", async () => {
    await open();
    expect(called("tiers")).toEqual([]);
    const { dialog, rows } = await openTiers();
    expect(within(rows[0]!).getAllByRole("columnheader").map((head) => head.textContent)).toEqual([
      "Memory", "Chat", "Coding", "Small and fast", "Model pair"]);
    expect(rows.length).toBe(10);
    const own = rows.filter((row) => within(row).queryByText("This computer"));
    expect(own.length).toBe(1);
    within(own[0]!).getByRole("rowheader", { name: /^16 GB This computer 10\.5 GB for models$/ });
    within(own[0]!).getByText("4-bit · 6.2 GB");
    expect(within(own[0]!).getAllByText("13–20 tokens/s").length).toBe(1);
    within(own[0]!).getByText("7.8 GB together");
    await fireEvent.click(within(dialog).getByRole("button", { name: "Done" }));
    expect(screen.queryByRole("table")).toBeNull();
    expect(called("tiers").length).toBe(1);
  });

  it("say so if no model fits", async () => {
    await open((fake) => {
      fake.downloadQueue.tiers = fake.downloadQueue.tiers.map((tier) => tier.is_this_computer ? { ...tier, code: null, pair: null } : tier);
    });
    const { rows } = await openTiers();
    const own = rows.find((row) => within(row).queryByText("This computer"))!;
    expect(within(own).getAllByText("No model fits").length).toBe(2);
  });

  it("follow a catalog that changes while they are open", async () => {
    await open();
    await openTiers();
    fake.downloadQueue.tiers = fake.downloadQueue.tiers.filter((tier) => tier.is_this_computer);
    fake.emit({ event: "catalog" });
    await waitFor(() => expect(screen.getAllByRole("row").length).toBe(2));
  });

  it("close with the reason if they cannot be loaded", async () => {
    await open((fake) => fake.refuse("tiers", { code: "other", reason: "no room answers" }));
    await fireEvent.click(screen.getByRole("button", { name: "Models by Memory Size…" }));
    await screen.findByText(/no room answers/);
    expect(screen.queryByRole("dialog")).toBeNull();
  });
});

describe("a pair of models", () => {
  it("is shown with its memory need", async () => {
    await open();
    const pair = row("Qwen3 8B and Qwen3 0.6B", "Recommended models");
    within(pair).getByText(/drafts tokens for the larger one/);
    within(pair).getByText("Qwen3 0.6B 4-bit: 1.6 GB");
    within(pair).getByText("7.8 GB together");
    expect(within(pair).queryByRole("button")).toBeNull();
  });

  it("says if one of them is an embedding model", async () => {
    await open((fake) => {
      const { catalog } = fake.downloadQueue;
      fake.downloadQueue.catalog = { ...catalog, pair: { ...catalog.pair!, kind: "embedding" } };
    });
    screen.getByText(/finds similar texts for other apps, through the local API/);
  });
});

describe("the disk", () => {
  const full = (fake: FakeIpc) => {
    fake.downloadQueue.catalog = onDisk(fake.downloadQueue.catalog, 4.2);
  };

  it("shows the free space, and with downloads the space after them", async () => {
    await open();
    within(group("Recommended models")).getByText(/212 GB of disk space is free\.$/);
    await fireEvent.click(within(row("Qwen3 8B", "Recommended models"))
      .getByRole("button", { name: /^Download Qwen3 8B/ }));
    await screen.findByText(/207\.4 GB of disk space will be free after the downloads\.$/);
  });

  it("is not mentioned if its free space is unknown", async () => {
    await open((fake) => {
      fake.downloadQueue.catalog = { ...fake.downloadQueue.catalog, disk_free_bytes: null };
    });
    expect(screen.queryByText(/disk space/)).toBeNull();
  });

  it("that is too full says so, and the model cannot be downloaded", async () => {
    await open(full);
    const first = row("Qwen3 8B", "Recommended models");
    within(first).getByText("Not enough disk space. Free up 922 MB more.");
    expect(within(first).queryByRole("button", { name: /^Download / })).toBeNull();
    within(row("Gemma 3 4B", "Recommended models")).getByRole("button", { name: /^Download Gemma/ });
    fake.downloadQueue.catalog = onDisk(fake.downloadQueue.catalog, 40);
    await fireEvent.focus(window);
    await within(first).findByRole("button", { name: /^Download Qwen3 8B/ });
  });

  it("marks each variant of a model separately", async () => {
    await open(full);
    const more = row("Qwen3 8B", "Recommended models");
    await fireEvent.click(within(more).getByRole("button", { name: "More about Qwen3 8B" }));
    const versions = within(more).getAllByRole("radio").map((radio) => radio.closest("label")!.textContent);
    expect(versions.length).toBe(3);
    for (const version of versions) expect(version).toMatch(/Not enough disk space/);
    const small = row("Gemma 3 4B", "Recommended models");
    await fireEvent.click(within(small).getByRole("button", { name: "More about Gemma 3 4B" }));
    expect(within(small).queryByText(/Not enough disk space/)).toBeNull();
  });
});

describe("the catalog", () => {
  it("recommends models for this machine, with size, fit and speed", async () => {
    await open();
    const first = row("Qwen3 8B", "Recommended models");
    within(first).getByText("Chat");
    within(first).getByText("Fits");
    within(first).getByText("4.6 GB");
    within(first).getByText("13–20 tokens/s");
  });

  it("shows models that fit, and the others on request", async () => {
    await open();
    expect(within(group("More models")).queryByText("Llama 3.3 70B")).toBeNull();
    await fireEvent.click(screen.getByRole("button", { name: "Show All" }));
    const large = row("Llama 3.3 70B", "More models");
    within(large).getByText(/^Too large: needs 41\.1 GB, 10\.5 GB available/);
    expect(within(large).queryByRole("button", { name: /^Download / })).toBeNull();
    await fireEvent.click(within(large).getByRole("button", { name: "More about Llama 3.3 70B" }));
    within(large).getByText("Download Anyway");
  });

  it("offers embedding models, which cannot be chosen for a chat", async () => {
    await open();
    await fireEvent.change(screen.getByLabelText("Purpose"), { target: { value: "embedding" } });
    const entry = row("Nomic Embed v1.5", "More models");
    within(entry).getByRole("button", { name: /^Download Nomic/ });
    const id = "/models/nomic-embed@Q8_0";
    fake.setModels([...models(), { ...models()[0]!, id, name: "Nomic Embed v1.5", is_chosen: false, is_embedder: true }]);
    const { catalog } = fake.downloadQueue;
    fake.downloadQueue.catalog = { ...catalog, entries: catalog.entries.map((one) => one.id !== "nomic-embed" ? one
      : { ...one, variants: one.variants.map((variant) => ({ ...variant, model: id })) }) };
    await fireEvent.focus(window);
    await within(row("Nomic Embed v1.5", "More models")).findByText("Installed");
    const installed = row("Nomic Embed v1.5", "Installed");
    within(installed).getByText(/^Makes embeddings for other apps/);
    expect(screen.queryByRole("button", { name: /^Use Nomic/ })).toBeNull();
    expect(app.chatModels.map((one) => one.id)).not.toContain(id);
  });

  it("is searched by text and filtered by purpose", async () => {
    await open();
    const more = group("More models");
    await fireEvent.change(screen.getByLabelText("Purpose"), { target: { value: "code" } });
    expect(within(more).getAllByRole("listitem").length).toBe(1);
    await fireEvent.change(screen.getByLabelText("Purpose"), { target: { value: "all" } });
    await fireEvent.input(screen.getByLabelText("Search models"), { target: { value: "gemma" } });
    expect(within(more).getAllByRole("listitem").length).toBe(1);
  });

  it("is shown and searched in the user's language, and found in English too", async () => {
    await open((fake) => {
      const { catalog } = fake.downloadQueue;
      fake.downloadQueue.catalog = { ...catalog, entries: catalog.entries.map((entry) =>
        entry.id === "gemma-3-4b" ? { ...entry, description: "A list of mine. Weak at sums." } : entry) };
    });
    chooseLanguage("de");
    const translated = await screen.findByText(/^Das kleinste Qwen3\./);
    expect(translated.lang).toBe("de");
    expect(within(group("Weitere Modelle")).getByText(/^A list of mine/).lang).toBe("en");
    for (const words of ["Gedankengängen", "smallest qwen3"]) {
      await fireEvent.input(screen.getByLabelText("Modelle suchen"), { target: { value: words } });
      expect(within(group("Weitere Modelle")).getAllByRole("listitem").length).toBe(1);
      within(group("Weitere Modelle")).getByText(/^Das kleinste Qwen3\./);
    }
  });

  it("downloads the selected variant", async () => {
    await open();
    const first = row("Qwen3 8B", "Recommended models");
    await fireEvent.click(within(first).getByRole("button", { name: "More about Qwen3 8B" }));
    await fireEvent.click(within(first).getByRole("radio", { name: /^Q4_K_M/ }));
    await fireEvent.click(within(first).getByRole("button", { name: /^Download Qwen3 8B/ }));
    expect(called("install")).toEqual([["qwen3-8b@Q4_K_M"]]);
  });

  it("searches the hub only on request, and lists a repository before a download", async () => {
    await open();
    await fireEvent.input(screen.getByLabelText("Search models"), { target: { value: "smollm" } });
    expect(called("searchHub")).toEqual([]);
    await fireEvent.click(screen.getByRole("button", { name: "Search Hugging Face for “smollm”" }));
    const found = (await screen.findByText("bartowski/SmolLM3-3B-GGUF")).closest("li")!;
    await fireEvent.click(within(found).getByRole("button", { name: /^Show versions/ }));
    await within(found).findByRole("radio", { name: /^Q8_0/ });
    await fireEvent.click(within(found).getByRole("button", { name: /^Download / }));
    expect(called("install")).toEqual([["bartowski/SmolLM3-3B-GGUF:Q4_K_M"]]);
  });

  it("shows the position of an error in the user's catalog until it is fixed", async () => {
    await open((fake) => {
      fake.downloadQueue.catalog = { ...fake.downloadQueue.catalog, error: {
        file: "models.toml", line: 14, column: 9, code: "missing_key", key: "license",
        detail: "license is missing" } };
    });
    await screen.findByText("models.toml, line 14, column 9: The key “license” is missing.");
    screen.getByText("license is missing");
    fake.downloadQueue.catalog = { ...fake.downloadQueue.catalog, error: null };
    fake.emit({ event: "catalog" });
    await waitFor(() => expect(screen.queryByText(/line 14/)).toBeNull());
  });
});

describe("a download", () => {
  async function begin() {
    await open();
    const first = row("Qwen3 8B", "Recommended models");
    await fireEvent.click(within(first).getByRole("button", { name: /^Download Qwen3 8B/ }));
    await screen.findByRole("heading", { name: "Downloads" });
    return first;
  }

  it("shows its progress in its row and above, and becomes an installed model", async () => {
    const first = await begin();
    fake.downloadQueue.come(1, 0.5);
    await within(first).findByText(/^2\.3 GB of 4\.6 GB · 24 MB\/s · 98 sec left|^2\.3 GB of 4\.6 GB · 24 MB\/s · 2 min left/);
    const bar = within(first).getByRole("progressbar");
    expect(bar.getAttribute("aria-valuenow")).toBe("50");
    const model = fake.downloadQueue.finish(1);
    fake.setModels([...await fake.models(), model]);
    await within(first).findByRole("button", { name: /^Use Qwen3 8B/ });
  });

  it("keeps the focus in its row when it starts", async () => {
    await open();
    const first = row("Qwen3 8B", "Recommended models");
    const get = within(first).getByRole("button", { name: /^Download Qwen3 8B/ });
    get.focus();
    await fireEvent.click(get);
    await waitFor(() => expect(get.isConnected).toBe(false));
    const more = within(first).getByRole("button", { name: "More about Qwen3 8B" });
    await waitFor(() => expect(document.activeElement).toBe(more));
  });

  it("can be paused, resumed, moved to the front and canceled", async () => {
    await begin();
    await fireEvent.click(within(row("Gemma 3 4B", "Recommended models"))
      .getByRole("button", { name: /^Download Gemma/ }));
    const strip = await waitFor(() => group("Downloads"));
    await fireEvent.click(await within(strip).findByRole("button", { name: "Move Gemma 3 4B · 4-bit to the top" }));
    await fireEvent.click(within(strip).getByRole("button", { name: "Pause Qwen3 8B · 4-bit" }));
    await fireEvent.click(await within(strip).findByRole("button", { name: "Resume Qwen3 8B · 4-bit" }));
    await fireEvent.click(within(strip).getByRole("button", { name: "Cancel Gemma 3 4B · 4-bit" }));
    expect(called("changeDownload")).toEqual([
      [2, { change: "move", position: 0 }], [1, { change: "pause" }], [1, { change: "resume" }],
      [2, { change: "cancel" }],
    ]);
  });

  it("with much data is canceled only after a confirmation", async () => {
    await begin();
    fake.downloadQueue.come(1, 0.5);
    const strip = group("Downloads");
    await within(strip).findByText(/^2\.3 GB of/);
    await fireEvent.click(within(strip).getByRole("button", { name: "Cancel Qwen3 8B · 4-bit" }));
    screen.getByText("Transom will delete the 2.3 GB downloaded so far.");
    expect(called("changeDownload")).toEqual([]);
    await fireEvent.click(screen.getByRole("button", { name: "Cancel Download" }));
    expect(called("changeDownload")).toEqual([[1, { change: "cancel" }]]);
  });

  it("that failed shows its reason, and can be retried", async () => {
    const first = await begin();
    fake.downloadQueue.fail(1, hubError("disk_full", "full",
      { needed_bytes: 2 * 2 ** 30, free_bytes: 2 ** 29 }));
    await within(first).findByText("Not enough disk space: the download needs 2 GB, and 512 MB is free.");
    await fireEvent.click(within(first).getByRole("button", { name: "Try Again" }));
    expect(called("changeDownload")).toEqual([[1, { change: "resume" }]]);
  });

  it("that failed with an unknown code shows the app's sentence", async () => {
    const first = await begin();
    fake.downloadQueue.fail(1, hubError("asteroid", "An asteroid hit the hub."));
    await within(first).findByText("An asteroid hit the hub.");
  });

  it("that is refused at once shows the reason at the top", async () => {
    await open((fake) => fake.refuse("install", { code: "hub",
      error: hubError("unreachable", "no route", { host: "huggingface.co" }) }));
    await fireEvent.click(within(row("Qwen3 8B", "Recommended models"))
      .getByRole("button", { name: /^Download Qwen3 8B/ }));
    await screen.findByText("Can’t reach huggingface.co. Check your internet connection.");
  });

  it("that is refused in another window is translated in its notice", async () => {
    await open();
    chooseLanguage("de");
    attempt(Promise.reject({ code: "hub", error: hubError("unreachable", "no route", { host: "huggingface.co" }) }));
    const sentence = "huggingface.co ist nicht erreichbar. Prüfe deine Internetverbindung.";
    await screen.findByText(sentence);
    expect(noticeView(app.notices.at(-1)!)?.text).toBe(sentence);
    app.dismiss();
  });
});

describe("access to the hub", () => {
  it("stores a token in the keychain, shows only that it exists, and removes it", async () => {
    await open();
    await fireEvent.click(screen.getByRole("button", { name: "Advanced" }));
    const field = await screen.findByLabelText("New token");
    await fireEvent.input(field, { target: { value: "hf_secret" } });
    await fireEvent.click(screen.getAllByRole("button", { name: "Save" })[0]!);
    await screen.findByText("A token is saved in your keychain.");
    expect(document.body.innerHTML).not.toContain("hf_secret");
    await fireEvent.click(screen.getByRole("button", { name: "Remove Token" }));
    await screen.findByLabelText("New token");
    expect(called("setHubToken")).toEqual([["hf_secret"], [null]]);
  });

  it("says in the user's language why the keychain can't be used", async () => {
    await open((fake) => (fake.downloadQueue.access = { ...fake.downloadQueue.access,
      keychain_problem: hubError("no_keychain", "no keychain") }));
    chooseLanguage("de");
    await fireEvent.click(await screen.findByRole("button", { name: "Erweitert" }));
    await screen.findByText(/^Es gibt keinen Schlüsselbund/);
    expect(screen.queryByLabelText("Neues Token")).toBeNull();
  });

  it("shows the path of the user's catalog, and opens its folder", async () => {
    await open();
    await fireEvent.click(screen.getByRole("button", { name: "Advanced" }));
    await screen.findByText("~/Library/Application Support/Transom/models.toml");
    await fireEvent.click(screen.getByRole("button", { name: "Open Folder" }));
    expect(called("openDataFolder").length).toBe(1);
  });

  it("sets another address, and the default for an empty one", async () => {
    await open();
    await fireEvent.click(screen.getByRole("button", { name: "Advanced" }));
    const field = await screen.findByLabelText("Hugging Face endpoint");
    const save = () => screen.getAllByRole("button", { name: "Save" }).at(-1)!;
    await fireEvent.input(field, { target: { value: "https://mirror.example" } });
    await fireEvent.click(save());
    await waitFor(() => expect(called("setHubEndpoint")).toEqual([["https://mirror.example"]]));
    await fireEvent.input(field, { target: { value: "" } });
    await fireEvent.click(save());
    await waitFor(() => expect(called("setHubEndpoint").at(-1)).toEqual([null]));
  });
});

describe("files dragged over the window", () => {
  const drop = (event: DropView) => fake.emit({ event: "drop", window: "settings", drop: event });

  it("are accepted if they are a model, and otherwise refused with a reason", async () => {
    await open();
    drop({ state: "over", name: "a.gguf", kind: "model", is_several: false });
    await screen.findByText("Drop to add a.gguf");
    drop({ state: "left" });
    await waitFor(() => expect(screen.queryByText(/^Drop to add/)).toBeNull());
    drop({ state: "refused", name: "a.mov", problem: "not_usable", error: null, reason: "" });
    await screen.findByText(/^a\.mov can’t be used here\. A model is a GGUF file/);
    drop({ state: "refused", name: "a.gguf", problem: "bad_model", error: null, reason: "no tensors" });
    await screen.findByText("Can’t use a.gguf: no tensors");
    const error = { code: "truncated", file: "a.gguf", value: "", detail: "/a.gguf: cut short" };
    drop({ state: "refused", name: "a.gguf", problem: "bad_model", error, reason: "" });
    const refused = await screen.findByText("Can’t use a.gguf: a.gguf is incomplete. Download the model again.");
    expect(refused.title).toBe("/a.gguf: cut short");
    drop({ state: "added", id: "/a.gguf", name: "A" });
    await screen.findByText("Added A.");
  });

  it("show what happens to all of them, and every result until the next ones", async () => {
    await open();
    drop({ state: "over", name: "a.md", kind: "document", is_several: true });
    await screen.findByText("Drop to attach the text of these documents");
    drop({ state: "over", name: "a.gguf", kind: "model", is_several: true });
    await screen.findByText("Drop to add these models");
    drop({ state: "over", name: "a.md", kind: "mixed", is_several: false });
    await screen.findByText("Only the documents will be attached");
    drop({ state: "left" });
    drop({ state: "added", id: "/a.gguf", name: "A" });
    drop({ state: "refused", name: "Photos", problem: "no_model", error: null, reason: "" });
    drop({ state: "refused", name: "b.gguf", problem: "only_documents", error: null, reason: "" });
    const note = await screen.findByRole("alert");
    within(note).getByText("Added A.");
    within(note).getByText("The folder Photos contains no model.");
    within(note).getByText("Only the documents were attached, not b.gguf.");
    drop({ state: "over", name: "c.gguf", kind: "model", is_several: false });
    await waitFor(() => expect(screen.queryByText("Added A.")).toBeNull());
  });
});
