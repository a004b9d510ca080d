// Renders a chart as Helm does, with Go's own text/template and the functions that the chart of Railyard uses; any other function is an error.
// A request comes as JSON on standard input, what is rendered goes as JSON to standard output, an error to standard error.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"
	"text/template"
)

type request struct {
	Chart struct {
		Name, Version, AppVersion string
	}
	Release struct {
		Name, Namespace string
	}
	// Values of the chart, and what is said in place of some of them.
	Defaults, Values map[string]any
	Schema           map[string]any
	// Texts by their path below the chart's folder.
	Templates, Files map[string]string
}

type files map[string]string

// Get is a file of the chart; nothing where there is none, as Helm has it.
func (f files) Get(name string) string { return f[name] }

func main() {
	out, err := run()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (map[string]string, error) {
	var asked request
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	values := merged(asked.Defaults, asked.Values)
	if found := check("", asked.Schema, values); len(found) > 0 {
		sort.Strings(found)
		return nil, fmt.Errorf("values do not meet the schema:\n- %s", strings.Join(found, "\n- "))
	}
	return render(&asked, values)
}

// merged is base with what over says in its place; null takes a value away.
func merged(base, over map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range base {
		out[key] = value
	}
	for key, value := range over {
		below, isMap := value.(map[string]any)
		own, wasMap := out[key].(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap && wasMap:
			out[key] = merged(own, below)
		default:
			out[key] = value
		}
	}
	return out
}

func render(asked *request, values map[string]any) (map[string]string, error) {
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(functions(root))
	names := []string{}
	for name := range asked.Templates {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if _, err := root.New(name).Parse(asked.Templates[name]); err != nil {
			return nil, err
		}
	}
	top := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": asked.Chart.Name, "Version": asked.Chart.Version, "AppVersion": asked.Chart.AppVersion},
		"Release": map[string]any{"Name": asked.Release.Name, "Namespace": asked.Release.Namespace, "Service": "Helm"},
		"Files":   files(asked.Files),
	}
	out := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		var text strings.Builder
		if err := root.ExecuteTemplate(&text, name, top); err != nil {
			return nil, err
		}
		out[name] = text.String()
	}
	return out, nil
}
