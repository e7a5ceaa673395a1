package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Formats of answers.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatName  = "name"
	// FormatJSONPath is followed by a template, as in kubectl.
	FormatJSONPath = "jsonpath="
)

// Output is the flag --output of a verb.
type Output struct {
	Format  string
	allowed []string
}

// AddFlag adds the flag with the formats that a verb has; the first one is the default.
func (o *Output) AddFlag(flags *pflag.FlagSet, formats ...string) {
	o.allowed = formats
	flags.StringVarP(&o.Format, "output", "o", formats[0], "one of "+strings.Join(formats, ", "))
}

// Validate refuses a format that the verb does not have.
func (o *Output) Validate() error {
	if slices.Contains(o.allowed, o.Format) || slices.Contains(o.allowed, FormatJSONPath) && strings.HasPrefix(o.Format, FormatJSONPath) {
		return nil
	}
	return fmt.Errorf("output %q is not known; use -o %s", o.Format, strings.Join(o.allowed, ", "))
}

// IsMachineReadable says whether a program reads the answer.
func (o *Output) IsMachineReadable() bool {
	return o.Format == FormatJSON || o.Format == FormatYAML || strings.HasPrefix(o.Format, FormatJSONPath)
}

// Print prints a value for programs. Its fields are part of our contract with them: each
// answer begins with apiVersion and kind.
func (o *Output) Print(out io.Writer, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	switch {
	case o.Format == FormatYAML:
		if content, err = yaml.JSONToYAML(content); err != nil {
			return err
		}
	case strings.HasPrefix(o.Format, FormatJSONPath):
		return printJSONPath(out, strings.TrimPrefix(o.Format, FormatJSONPath), content)
	default:
		content = append(content, '\n')
	}
	_, err = out.Write(content)
	return err
}

func printJSONPath(out io.Writer, template string, content []byte) error {
	var value any
	if err := json.Unmarshal(content, &value); err != nil {
		return err
	}
	if !strings.HasPrefix(template, "{") {
		template = "{." + strings.TrimPrefix(template, ".") + "}"
	}
	p := jsonpath.New("output")
	if err := p.Parse(template); err != nil {
		return fmt.Errorf("%w; a template looks like -o jsonpath='{.items[*].name}'", err)
	}
	if err := p.Execute(out, value); err != nil {
		return fmt.Errorf("%w; -o json shows the fields there are", err)
	}
	fmt.Fprintln(out)
	return nil
}

// APIVersion is that of answers for programs.
const APIVersion = "cli.holdfast.dev/v1alpha1"

// Header begins an answer for programs.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NewHeader is the header of an answer of a kind.
func NewHeader(kind string) Header { return Header{APIVersion: APIVersion, Kind: kind} }
