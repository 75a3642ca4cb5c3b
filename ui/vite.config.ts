/// <reference types="vitest/config" />
/**
 * Three pages for the app; with `--mode gallery` one more that shows named states of them.
 * Nothing may be inlined into the pages: the content security policy allows only our own files.
 */
import { resolve } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { galleryList } from "./src/gallery/list-plugin.ts";

const pages = ["chat", "prompt", "settings"];

export default defineConfig(({ mode }) => {
  const isGallery = mode === "gallery";
  const names = isGallery ? ["gallery"] : pages;
  const input = Object.fromEntries(
    names.map((name) => [name, resolve(import.meta.dirname, `${name}.html`)]),
  );
  return {
    root: import.meta.dirname,
    base: "./",
    plugins: [svelte(), ...(isGallery ? [galleryList()] : [])],
    // Tests use browser conditions; otherwise Svelte would use its server build.
    resolve: mode === "test" ? { conditions: ["browser"] } : {},
    build: {
      outDir: isGallery ? "dist-gallery" : "dist",
      emptyOutDir: true,
      target: "safari17",
      cssTarget: "safari17",
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      rollupOptions: { input },
    },
    test: {
      environment: "jsdom",
      include: ["src/**/*.test.ts"],
      setupFiles: ["src/test-setup.ts"],
      testTimeout: 20_000,
    },
  };
});
