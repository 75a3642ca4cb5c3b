/** The panes of the settings window, in the order of the sidebar. */
export const PANES = ["models", "model", "behavior", "api", "general", "about"] as const;
export type Pane = (typeof PANES)[number];
