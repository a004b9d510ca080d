// toYaml: values in block style, as Helm writes them.
package main

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

func toYAML(value any) (string, error) {
	var text strings.Builder
	if err := write(&text, value, 0); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

func write(text *strings.Builder, value any, depth int) error {
	space := strings.Repeat("  ", depth)
	switch of := value.(type) {
	case map[string]any:
		if len(of) == 0 {
			text.WriteString("{}\n")
			return nil
		}
		keys := []string{}
		for key := range of {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for at, key := range keys {
			if at > 0 {
				text.WriteString(space)
			}
			if err := entry(text, key, of[key], depth); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if len(of) == 0 {
			text.WriteString("[]\n")
			return nil
		}
		for at, one := range of {
			if at > 0 {
				text.WriteString(space)
			}
			text.WriteString("- ")
			if err := write(text, one, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		said, err := scalar(value)
		text.WriteString(said + "\n")
		return err
	}
}

// entry is one key of a map; a list below it is not indented.
func entry(text *strings.Builder, key string, value any, depth int) error {
	name, err := scalar(key)
	if err != nil {
		return err
	}
	text.WriteString(name + ":")
	below := depth + 1
	switch of := value.(type) {
	case map[string]any:
		if len(of) > 0 {
			text.WriteString("\n" + strings.Repeat("  ", below))
			return write(text, value, below)
		}
	case []any:
		if len(of) > 0 {
			text.WriteString("\n" + strings.Repeat("  ", depth))
			return write(text, value, depth)
		}
	}
	text.WriteString(" ")
	return write(text, value, below)
}

var (
	plain    = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./@ +=:,$()-]*$`)
	resolved = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|~|[-+]?[0-9][0-9_.:e+-]*|0x[0-9a-f]+|\.inf|\.nan)$`)
)

func scalar(value any) (string, error) {
	switch of := value.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(of), nil
	case float64:
		return strconv.FormatFloat(of, 'f', -1, 64), nil
	case string:
		switch {
		case strings.ContainsAny(of, "\n\t\r"):
			return "", fmt.Errorf("toYaml: %q has more than one line", of)
		case of == "" || resolved.MatchString(of):
			return strconv.Quote(of), nil
		case plain.MatchString(of) && !strings.Contains(of, ": ") && !strings.HasSuffix(of, ":") && !strings.HasSuffix(of, " "):
			return of, nil
		default:
			return "'" + strings.ReplaceAll(of, "'", "''") + "'", nil
		}
	default:
		return "", fmt.Errorf("toYaml: %T", value)
	}
}
