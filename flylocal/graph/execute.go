package graph

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// object is a GraphQL object: each field is a value (text, number, bool, nil, object, list) or a resolver. The type's
// name stands under "__typename".
type object map[string]any

// list is a GraphQL list.
type list []any

// resolver computes a field from its arguments when it is asked for.
type resolver func(args map[string]any) (any, error)

// maxTokens bounds a query.
const maxTokens = 20000

// codedError is an error with the code that Fly's API puts into its extensions.
type codedError struct {
	code, message string
}

func (e *codedError) Error() string { return e.message }

// execution is one run of one operation.
type execution struct {
	fragments ast.FragmentDefinitionList
	variables map[string]any
	errs      []error
}

// execute runs the operation that a request asks for. Data is nil when it could not start; errors of single fields leave
// null where the field stood.
func execute(query, operation string, variables map[string]any, roots map[ast.Operation]object) (data map[string]any, errs []error) {
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, maxTokens)
	if err != nil {
		return nil, []error{err}
	}
	op := doc.Operations.ForName(operation)
	if op == nil {
		return nil, []error{errors.New("the request names no operation of its query")}
	}
	root, ok := roots[op.Operation]
	if !ok {
		return nil, []error{fmt.Errorf("%s is not offered", op.Operation)}
	}
	x := &execution{fragments: doc.Fragments, variables: map[string]any{}}
	for _, def := range op.VariableDefinitions {
		value, given := variables[def.Variable]
		if !given && def.DefaultValue != nil {
			if value, err = def.DefaultValue.Value(nil); err != nil {
				return nil, []error{err}
			}
		}
		if value == nil && def.Type.NonNull {
			return nil, []error{fmt.Errorf("Variable $%s of type %s was provided invalid value", def.Variable, def.Type)} //nolint:staticcheck,revive // Fly's text.
		}
		x.variables[def.Variable] = value
	}
	return x.object(root, op.SelectionSet), x.errs
}

func (x *execution) object(o object, set ast.SelectionSet) map[string]any {
	out := map[string]any{}
	x.into(out, o, set)
	return out
}

func (x *execution) into(out map[string]any, o object, set ast.SelectionSet) {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			if x.included(s.Directives) {
				x.field(out, o, s)
			}
		case *ast.InlineFragment:
			if x.included(s.Directives) && fits(o, s.TypeCondition) {
				x.into(out, o, s.SelectionSet)
			}
		case *ast.FragmentSpread:
			def := x.fragments.ForName(s.Name)
			if def == nil {
				x.errs = append(x.errs, fmt.Errorf("Fragment %s was used, but not defined", s.Name)) //nolint:staticcheck,revive // Fly's text.
				continue
			}
			if x.included(s.Directives) && fits(o, def.TypeCondition) {
				x.into(out, o, def.SelectionSet)
			}
		}
	}
}

func fits(o object, typeName string) bool {
	return typeName == "" || o["__typename"] == typeName
}

func (x *execution) included(directives ast.DirectiveList) bool {
	for _, d := range directives {
		arg := d.Arguments.ForName("if")
		if arg == nil {
			continue
		}
		value, err := arg.Value.Value(x.variables)
		yes, isBool := value.(bool)
		if err == nil && isBool && (d.Name == "skip" && yes || d.Name == "include" && !yes) {
			return false
		}
	}
	return true
}

func (x *execution) field(out map[string]any, o object, f *ast.Field) {
	value, known := o[f.Name]
	if !known {
		x.errs = append(x.errs, fmt.Errorf("Field '%s' doesn't exist on type '%s'", f.Name, o["__typename"])) //nolint:staticcheck,revive // Fly's text.
		return
	}
	if resolve, ok := value.(resolver); ok {
		args := map[string]any{}
		for _, arg := range f.Arguments {
			v, err := arg.Value.Value(x.variables)
			if err != nil {
				x.errs = append(x.errs, err)
				return
			}
			args[arg.Name] = v
		}
		var err error
		if value, err = resolve(args); err != nil {
			x.errs = append(x.errs, err)
			value = nil
		}
	}
	got := x.value(value, f.SelectionSet)
	// A field that is selected twice, by itself and by a fragment, answers the union.
	if before, ok := out[f.Alias].(map[string]any); ok {
		if more, ok := got.(map[string]any); ok {
			maps.Copy(before, more)
			return
		}
	}
	out[f.Alias] = got
}

func (x *execution) value(value any, set ast.SelectionSet) any {
	switch v := value.(type) {
	case object:
		if v == nil {
			return nil
		}
		return x.object(v, set)
	case list:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = x.value(element, set)
		}
		return out
	default:
		return v
	}
}

// text reads an argument that is a text; anything else is empty.
func text(args map[string]any, key string) string {
	s, ok := args[key].(string)
	if !ok {
		return ""
	}
	return strings.TrimSpace(s)
}
