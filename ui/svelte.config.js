import { vitePreprocess } from "@sveltejs/vite-plugin-svelte";

/** Runes everywhere: the older way of saying state does not compile here. */
export default { preprocess: vitePreprocess(), compilerOptions: { runes: true } };
