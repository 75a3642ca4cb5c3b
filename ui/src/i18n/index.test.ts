import { beforeEach, describe, expect, it } from "vitest";
import { bestLanguage, bytes, chooseLanguage, duration, number, parameters, t, translate } from ".";

const GB = 2 ** 30;

beforeEach(() => chooseLanguage("en"));

describe("a text", () => {
  it("has its placeholders filled: text unchanged, numbers for the language", () => {
    expect(t("settings.fit.fits", { need: "3.1 GB", free: "9.0 GB" })).toBe("Fits: 3.1 GB of 9.0 GB");
    expect(t("settings.tokens", { n: 12_000 })).toBe("12,000 tokens");
    expect(translate("en", "settings.tokens", { n: 1 })).toBe("1 token");
  });

  it("keeps a placeholder without a value", () => {
    expect(t("settings.prompts.note")).toContain("{text}");
  });

  it("does not fill placeholders inside of values", () => {
    expect(t("chat.list.none_found", { query: "{query} $& {n}" })).toContain("{query} $& {n}");
  });
});

describe("the language", () => {
  it("is the best match of the requested ones", () => {
    expect(bestLanguage(["de-AT", "en"])).toBe("de");
    expect(bestLanguage(["pt-BR", "fr-CA"])).toBe("fr");
    expect(bestLanguage(["zh-CN"])).toBe("zh-Hans");
    expect(bestLanguage(["zh_Hans_SG"])).toBe("zh-Hans");
    expect(bestLanguage(["zh-TW", "ja"])).toBe("ja");
    expect(bestLanguage(["ja_JP.UTF-8"])).toBe("ja");
    expect(bestLanguage(["tlh"])).toBe("en");
  });

  it("of the user has priority, and is set on the page", () => {
    chooseLanguage("ja", ["de"]);
    expect(document.documentElement.lang).toBe("ja");
    chooseLanguage(null, ["de"]);
    expect(document.documentElement.lang).toBe("de");
  });
});

describe("the formats", () => {
  it("write memory in powers of two", () => {
    expect(bytes(1.25 * GB)).toBe("1.3 GB");
    expect(bytes(16 * GB)).toBe("16 GB");
    expect(bytes(640 * 2 ** 20)).toBe("640 MB");
    expect(bytes(GB - 1)).toBe("1 GB");
  });

  it("write times in the two largest units", () => {
    expect(duration(45)).toBe("45 sec");
    expect(duration(600)).toBe("10 min");
    expect(duration(2 * 3600 + 300)).toBe("2 hr 5 min");
  });

  it("write parameters as models' names do", () => {
    expect(parameters(26e6)).toBe("26M");
    expect(parameters(7.6e9)).toBe("7.6B");
  });

  it("follow the language", () => {
    chooseLanguage("de");
    expect(number(12_000)).toBe("12.000");
    expect(bytes(1.25 * GB)).toMatch(/^1,3\sGB$/);
    chooseLanguage("fr");
    expect(bytes(1.25 * GB)).toMatch(/^1,3\sGo$/);
  });
});
