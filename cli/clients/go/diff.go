package railyard

import (
	"fmt"
	"strings"
)

const (
	// around a change so many lines are shown.
	around = 3
	// mostPairs: beyond so many pairs of lines a difference is given as if all between its first and its last line were another.
	mostPairs = 4_000_000
)

// step is one line of a difference, with its mark: ' ', '-' or '+'.
type step struct {
	mark byte
	text string
}

func marked(mark byte, lines []string) []step {
	found := make([]step, len(lines))
	for i, one := range lines {
		found[i] = step{mark, one}
	}
	return found
}

// steps is the shortest way from one list of lines to the other.
func steps(before, after []string) []step {
	begin, a, b := 0, len(before), len(after)
	for begin < a && begin < b && before[begin] == after[begin] {
		begin++
	}
	for a > begin && b > begin && before[a-1] == after[b-1] {
		a, b = a-1, b-1
	}
	found := marked(' ', before[:begin])
	found = append(found, between(before[begin:a], after[begin:b])...)
	return append(found, marked(' ', before[a:])...)
}

func between(before, after []string) []step {
	var found []step
	i, j := 0, 0
	if len(before)*len(after) <= mostPairs {
		// How many lines are common from here on.
		common := make([][]int32, len(before)+1)
		common[len(before)] = make([]int32, len(after)+1)
		for i := len(before) - 1; i >= 0; i-- {
			common[i] = make([]int32, len(after)+1)
			for j := len(after) - 1; j >= 0; j-- {
				common[i][j] = max(common[i+1][j], common[i][j+1])
				if before[i] == after[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
		for i < len(before) && j < len(after) {
			switch {
			case before[i] == after[j]:
				found = append(found, step{' ', before[i]})
				i, j = i+1, j+1
			case common[i+1][j] >= common[i][j+1]:
				found = append(found, step{'-', before[i]})
				i++
			default:
				found = append(found, step{'+', after[j]})
				j++
			}
		}
	}
	return append(append(found, marked('-', before[i:])...), marked('+', after[j:])...)
}

// count counts lines that do not have a mark.
func count(all []step, mark byte) int {
	found := 0
	for _, one := range all {
		if one.mark != mark {
			found++
		}
	}
	return found
}

func lineRange(first, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", first-1)
	case 1:
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, count)
}

// unified is the difference as `diff -u` writes it; empty where there is none.
func unified(before, after []string, from, to string) string {
	all := steps(before, after)
	var changed []int
	for i, one := range all {
		if one.mark != ' ' {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	var found strings.Builder
	fmt.Fprintf(&found, "--- %s\n+++ %s\n", from, to)
	for at := 0; at < len(changed); {
		last := at
		for last+1 < len(changed) && changed[last+1]-changed[last] <= 2*around {
			last++
		}
		begin, end := max(changed[at]-around, 0), min(changed[last]+around+1, len(all))
		hunk := all[begin:end]
		old := lineRange(count(all[:begin], '+')+1, count(hunk, '+'))
		young := lineRange(count(all[:begin], '-')+1, count(hunk, '-'))
		fmt.Fprintf(&found, "@@ -%s +%s @@\n", old, young)
		for _, one := range hunk {
			fmt.Fprintf(&found, "%c%s\n", one.mark, one.text)
		}
		at = last + 1
	}
	return found.String()
}
