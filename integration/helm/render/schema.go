// The part of JSON Schema that values.schema.json is written in; any other word is an error, so that none goes unchecked.
package main

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
)

var words = map[string]bool{
	"$schema": true, "title": true, "description": true, "type": true, "properties": true, "additionalProperties": true, "required": true,
	"items": true, "enum": true, "pattern": true, "minimum": true, "maximum": true, "maxLength": true, "uniqueItems": true,
}

// check names all that is wrong with a value, and where.
func check(at string, schema map[string]any, value any) []string {
	found := []string{}
	say := func(format string, more ...any) {
		place := strings.TrimPrefix(at, ".")
		found = append(found, place+": "+fmt.Sprintf(format, more...))
	}
	for word := range schema {
		if !words[word] {
			say("the schema's %s is not read", word)
		}
	}
	if wanted := types(schema); len(wanted) > 0 && !isAny(wanted, value) {
		say("got %s, want %s", kind(value), strings.Join(wanted, " or "))
		return found
	}
	if choices, ok := schema["enum"].([]any); ok && !holds(choices, value) {
		say("%v is none of %v", value, choices)
	}
	switch of := value.(type) {
	case string:
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(of) {
			say("%q does not match %s", of, pattern)
		}
		if most, ok := schema["maxLength"].(float64); ok && float64(len([]rune(of))) > most {
			say("%q is longer than %v", of, most)
		}
	case float64:
		if least, ok := schema["minimum"].(float64); ok && of < least {
			say("%v is below %v", of, least)
		}
		if most, ok := schema["maximum"].(float64); ok && of > most {
			say("%v is above %v", of, most)
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for index, one := range of {
			found = append(found, check(fmt.Sprintf("%s[%d]", at, index), items, one)...)
		}
		for index, one := range of {
			if schema["uniqueItems"] == true && holds(of[:index], one) {
				say("%v is there twice", one)
			}
		}
	case map[string]any:
		found = append(found, members(at, schema, of)...)
	}
	return found
}

func members(at string, schema map[string]any, value map[string]any) []string {
	found := []string{}
	properties, _ := schema["properties"].(map[string]any)
	needed, _ := schema["required"].([]any)
	for _, name := range needed {
		if _, ok := value[fmt.Sprint(name)]; !ok {
			found = append(found, fmt.Sprintf("%s: %v is missing", strings.TrimPrefix(at, "."), name))
		}
	}
	for name, one := range value {
		below := at + "." + name
		if of, ok := properties[name].(map[string]any); ok {
			found = append(found, check(below, of, one)...)
			continue
		}
		switch more := schema["additionalProperties"].(type) {
		case bool:
			if !more {
				found = append(found, strings.TrimPrefix(below, ".")+": there is no such value")
			}
		case map[string]any:
			found = append(found, check(below, more, one)...)
		}
	}
	return found
}

func holds(list []any, value any) bool {
	for _, one := range list {
		if reflect.DeepEqual(one, value) {
			return true
		}
	}
	return false
}

// types are the one type that a schema names, or several.
func types(schema map[string]any) []string {
	named, isList := schema["type"].([]any)
	if one, ok := schema["type"]; ok && !isList {
		named = []any{one}
	}
	out := []string{}
	for _, one := range named {
		out = append(out, fmt.Sprint(one))
	}
	return out
}

func isAny(wanted []string, value any) bool {
	for _, want := range wanted {
		if is(want, value) {
			return true
		}
	}
	return false
}

func is(want string, value any) bool {
	number, isNumber := value.(float64)
	return kind(value) == want || want == "integer" && isNumber && number == math.Trunc(number)
}

func kind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}
