/** Which pane is shown; the app may ask for one when it shows the window. */
import { PANES, type Pane } from "./pages";

class Shown {
  pane = $state<Pane>("models");
  /** Id of the model whose settings are shown; null: the one in use. */
  model = $state<string | null>(null);

  /** Shows the pane of that name; anything else leaves the one that is shown. */
  open(name: string | null): void {
    this.pane = PANES.find((pane) => pane === name) ?? this.pane;
  }
}

export const shown = new Shown();
