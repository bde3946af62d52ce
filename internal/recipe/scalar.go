package recipe

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// These words describe scalars in messages.
type scalarKind string

const (
	isText    scalarKind = "a text"
	isNull    scalarKind = "nothing (null)"
	isBoolean scalarKind = "a boolean"
	isInteger scalarKind = "a whole number"
	isNumber  scalarKind = "a number"
)

// A scalar is the type of a scalar in YAML's core schema (1.2, 10.3).
type scalar struct {
	kind scalarKind
	json json.RawMessage // nil for a text, which may be long
	odd  string          // why it is refused although it is one: others read it as something else
}

var (
	integer   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	based     = regexp.MustCompile(`^0(o[0-7]{1,40}|x[0-9a-fA-F]{1,40})$`)
	number    = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	notFinite = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// scalarOf reads a scalar. In some cases the library follows another version of YAML.
func scalarOf(n *yaml.Node) scalar {
	v := n.Value
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return textScalar()
	}
	switch v {
	case "", "~", "null", "Null", "NULL":
		return scalar{kind: isNull, json: json.RawMessage("null")}
	case "true", "True", "TRUE":
		return scalar{kind: isBoolean, json: json.RawMessage("true")}
	case "false", "False", "FALSE":
		return scalar{kind: isBoolean, json: json.RawMessage("false")}
	case "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF":
		s := textScalar()
		s.odd = "is read as a boolean by many"
		return s
	}
	if c := v[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return textScalar()
	}
	switch {
	case integer.MatchString(v):
		return wholeScalar(v)
	case based.MatchString(v):
		i, _ := new(big.Int).SetString(v, 0)
		return scalar{kind: isInteger, json: json.RawMessage(i.String())}
	case notFinite.MatchString(v):
		return scalar{kind: isNumber, json: json.RawMessage("null"), odd: "is not a number that JSON has"}
	case number.MatchString(v):
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsInf(f, 0) {
			return scalar{kind: isNumber, json: json.RawMessage("null"), odd: "is not a number that JSON has"}
		}
		raw, _ := json.Marshal(f) // a finite number
		return scalar{kind: isNumber, json: raw}
	}
	return textScalar()
}

func wholeScalar(v string) scalar {
	digits := strings.TrimLeft(v, "+-")
	s := scalar{kind: isInteger, json: json.RawMessage(strings.TrimPrefix(v, "+"))}
	if short := strings.TrimLeft(digits, "0"); len(digits) > 1 && len(short) < len(digits) {
		s.odd = "has a leading zero, which some read as octal"
		s.json = json.RawMessage("0")
	}
	if len(digits) > 300 {
		s.odd, s.json = "has more than 300 digits", json.RawMessage("0")
	}
	return s
}

func textScalar() scalar { return scalar{kind: isText} }

// kindOf returns the kind of a node.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return string(scalarOf(n).kind)
}
