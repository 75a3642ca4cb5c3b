/** Lists in the storage of the pages. A list that cannot be stored lasts as long as the page. */
export type Stored = Pick<Storage, "getItem" | "setItem"> | null;

/** Null without storage, as in some tests. */
export const pageStorage: Stored = typeof localStorage === "undefined" ? null : localStorage;

/** Returns a stored list. An unreadable one counts as empty. */
export function storedList<T>(storage: Stored, key: string): T[] {
  try {
    const value: unknown = JSON.parse(storage?.getItem(key) ?? "[]");
    return Array.isArray(value) ? value as T[] : [];
  } catch {
    return [];
  }
}

/** Stores a list. Returns false if there is too little space. */
export function storeList(storage: Stored, key: string, list: readonly unknown[]): boolean {
  try {
    storage?.setItem(key, JSON.stringify(list));
    return true;
  } catch {
    return false;
  }
}
