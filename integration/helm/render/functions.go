// The functions of Helm that the chart uses.
package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"
)

func functions(root *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := root.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"required": func(message string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, errors.New(message)
			}
			return value, nil
		},
		"fail":       func(message string) (string, error) { return "", errors.New(message) },
		"default":    func(other, value any) any { return either(empty(value), other, value) },
		"empty":      empty,
		"ternary":    func(yes, no any, is bool) any { return either(is, yes, no) },
		"quote":      func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"trim":       strings.TrimSpace,
		"trunc":      func(most int, text string) string { return text[:min(most, len(text))] },
		"trimSuffix": func(end, text string) string { return strings.TrimSuffix(text, end) },
		"hasPrefix":  func(start, text string) bool { return strings.HasPrefix(text, start) },
		"contains":   func(part, text string) bool { return strings.Contains(text, part) },
		"indent":     indent,
		"nindent":    func(by int, text string) string { return "\n" + indent(by, text) },
		"toYaml":     toYAML,
		"list":       func(values ...any) []any { return values },
		"append":     func(values []any, more any) []any { return append(append([]any{}, values...), more) },
		"dict":       dict,
	}
}

func either(is bool, yes, no any) any {
	if is {
		return yes
	}
	return no
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func empty(value any) bool {
	of := reflect.ValueOf(value)
	if !of.IsValid() {
		return true
	}
	switch of.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return of.Len() == 0
	default:
		return of.IsZero()
	}
}

func indent(by int, text string) string {
	space := strings.Repeat(" ", by)
	return space + strings.ReplaceAll(text, "\n", "\n"+space)
}

func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict takes names with values")
	}
	out := map[string]any{}
	for at := 0; at < len(pairs); at += 2 {
		out[fmt.Sprint(pairs[at])] = pairs[at+1]
	}
	return out, nil
}
