package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Output formats.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatName  = "name"
)

// jsonPathFlags has the JSONPath formats of kubectl. A missing key is an error, because a script would
// take the output for an empty value. Go templates are not supported:
// docs/adr/0019-libraries.md.
var jsonPathFlags = genericclioptions.NewJSONPathPrintFlags("", false)

// FormatJSONPath stands for all JSONPath formats. A template follows the equals sign.
var FormatJSONPath = strings.Join(jsonPathFlags.AllowedFormats(), "=, ") + "="

// Output is the flag --output of a command.
type Output struct {
	Format  string
	allowed []string
}

// formatsAnnotation is the annotation of the flag with its formats, for completion.
const formatsAnnotation = "holdfast_formats"

// AddFlag adds the flag with the given formats. The first format is the default.
func (o *Output) AddFlag(flags *pflag.FlagSet, formats ...string) {
	o.allowed = formats
	flags.StringVarP(&o.Format, "output", "o", formats[0], "Output format. One of: "+strings.Join(formats, ", "))
	_ = flags.SetAnnotation("output", formatsAnnotation, strings.Split(strings.Join(formats, ", "), ", ")) // fails only without the flag
}

// Validate rejects unsupported formats and templates with syntax errors.
func (o *Output) Validate() error {
	if o.isJSONPath() && slices.Contains(o.allowed, FormatJSONPath) {
		_, err := o.jsonPathPrinter()
		return err
	}
	if slices.Contains(o.allowed, o.Format) {
		return nil
	}
	return fmt.Errorf("output format %q is not supported; use one of: %s", o.Format, strings.Join(o.allowed, ", "))
}

func (o *Output) isJSONPath() bool {
	format, _, _ := strings.Cut(o.Format, "=")
	return slices.Contains(jsonPathFlags.AllowedFormats(), format)
}

// IsMachineReadable reports whether the format is JSON, YAML or JSONPath.
func (o *Output) IsMachineReadable() bool {
	return o.Format == FormatJSON || o.Format == FormatYAML || o.isJSONPath()
}

// Print prints a value in a machine-readable format. The fields are a stable API: each document has an
// apiVersion and a kind.
func (o *Output) Print(out io.Writer, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	switch {
	case o.isJSONPath():
		return o.printJSONPath(out, content)
	case o.Format == FormatYAML:
		if content, err = yaml.JSONToYAML(content); err != nil {
			return err
		}
	default:
		content = append(content, '\n')
	}
	_, err = out.Write(content)
	return err
}

func (o *Output) printJSONPath(out io.Writer, content []byte) error {
	printer, err := o.jsonPathPrinter()
	if err != nil {
		return err
	}
	var object map[string]any
	if err := utiljson.Unmarshal(content, &object); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := printer.PrintObj(&unstructured.Unstructured{Object: object}, &text); err != nil {
		cause, _, _ := strings.Cut(err.Error(), ". Printing more information") // the whole object
		return fmt.Errorf("%s; -o json shows the available fields", cause)
	}
	if !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n') // so that the shell prompt starts on a new line
	}
	_, err = text.WriteTo(out)
	return err
}

// jsonPathPrinter parses the template. Like kubectl wait, it accepts .kind for {.kind}.
func (o *Output) jsonPathPrinter() (printers.ResourcePrinter, error) {
	format := o.Format
	if path, ok := strings.CutPrefix(format, "jsonpath="); ok && path != "" && !strings.Contains(path, "{") {
		format = "jsonpath={." + strings.TrimPrefix(path, ".") + "}"
	}
	printer, err := jsonPathFlags.ToPrinter(format)
	if err != nil {
		return nil, fmt.Errorf("%w; a template looks like -o jsonpath='{.items[*].name}'", err)
	}
	return printer, nil
}

// APIVersion is the apiVersion of machine-readable output.
const APIVersion = "cli.holdfast.dev/v1alpha1"

// Header has the type of a machine-readable document.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NewHeader returns the header of a document of the given kind.
func NewHeader(kind string) Header { return Header{APIVersion: APIVersion, Kind: kind} }
