// The difference of two texts as `diff -u` writes it.

/** Lines around a change. */
const AROUND = 3;
/** Beyond so many pairs of lines a difference is given as if all between its first and its last line were another. */
const MOST = 4_000_000;

interface Step {
  mark: " " | "-" | "+";
  text: string;
}

/** The shortest way from one list of lines to the other. */
function steps(before: readonly string[], after: readonly string[]): Step[] {
  let [begin, a, b] = [0, before.length, after.length];
  while (begin < a && begin < b && before[begin] === after[begin]) begin += 1;
  while (a > begin && b > begin && before[a - 1] === after[b - 1]) [a, b] = [a - 1, b - 1];
  const old = before.slice(begin, a);
  const young = after.slice(begin, b);
  const same = (text: string): Step => ({ mark: " ", text });
  const middle: Step[] = [];
  let [i, j] = [0, 0];
  if (old.length * young.length <= MOST) {
    const width = young.length + 1;
    // How many lines are common from here on.
    const common = new Uint32Array((old.length + 1) * width);
    for (i = old.length - 1; i >= 0; i -= 1) {
      for (j = young.length - 1; j >= 0; j -= 1) {
        const at = i * width + j;
        const either = Math.max(common[at + width] ?? 0, common[at + 1] ?? 0);
        common[at] = old[i] === young[j] ? (common[at + width + 1] ?? 0) + 1 : either;
      }
    }
    for ([i, j] = [0, 0]; i < old.length && j < young.length; ) {
      const at = i * width + j;
      if (old[i] === young[j]) {
        middle.push(same(old[i] as string));
        [i, j] = [i + 1, j + 1];
      } else if ((common[at + width] ?? 0) >= (common[at + 1] ?? 0)) {
        middle.push({ mark: "-", text: old[i++] as string });
      } else {
        middle.push({ mark: "+", text: young[j++] as string });
      }
    }
  }
  middle.push(...old.slice(i).map((text): Step => ({ mark: "-", text })), ...young.slice(j).map((text): Step => ({ mark: "+", text })));
  return [...before.slice(0, begin).map(same), ...middle, ...before.slice(a).map(same)];
}

function range(first: number, count: number): string {
  return count === 1 ? `${first}` : `${count ? first : first - 1},${count}`;
}

/** Empty where there is no difference. */
export function unified(before: readonly string[], after: readonly string[], from: string, to: string): string {
  const all = steps(before, after);
  const changed = all.flatMap((one, at) => (one.mark === " " ? [] : [at]));
  const lines: string[] = changed.length ? [`--- ${from}`, `+++ ${to}`] : [];
  for (let at = 0; at < changed.length; ) {
    let last = at;
    while (last + 1 < changed.length && (changed[last + 1] as number) - (changed[last] as number) <= 2 * AROUND) last += 1;
    const begin = Math.max((changed[at] as number) - AROUND, 0);
    const hunk = all.slice(begin, (changed[last] as number) + AROUND + 1);
    const count = (list: readonly Step[], mark: string) => list.filter((one) => one.mark !== mark).length;
    const [old, young] = [count(all.slice(0, begin), "+") + 1, count(all.slice(0, begin), "-") + 1];
    lines.push(`@@ -${range(old, count(hunk, "+"))} +${range(young, count(hunk, "-"))} @@`);
    lines.push(...hunk.map((one) => one.mark + one.text));
    at = last + 1;
  }
  return lines.map((line) => `${line}\n`).join("");
}
