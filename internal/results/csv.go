package results

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// CSV writes a head with the names of the columns, then a line for each row: what is common to all of them first. It
// refuses two columns of one name, and a field that a cell cannot hold. Both are the fault of a struct, and found by
// any test that writes it.
//
// The name of a column is that of its JSON; one of a struct in a struct is its path, joined by "_". The tag csv
// renames a column, or with "-" leaves it to JSON. Lists of numbers are separated by spaces, of texts by "; ".
func CSV[C, R any](w io.Writer, common C, rows []R) error {
	head, err := columnsOf(reflect.TypeFor[C](), "")
	if err != nil {
		return err
	}
	own, err := columnsOf(reflect.TypeFor[R](), "")
	if err != nil {
		return err
	}
	for _, c := range own {
		if slices.ContainsFunc(head, func(x column) bool { return x.name == c.name }) {
			return fmt.Errorf("csv: two columns are called %s", c.name)
		}
	}
	out := csv.NewWriter(w)
	var line []string
	for _, c := range slices.Concat(head, own) {
		line = append(line, c.name)
	}
	out.Write(line)
	first := cells(nil, head, reflect.ValueOf(common))
	for _, row := range rows {
		out.Write(cells(slices.Clone(first), own, reflect.ValueOf(row)))
	}
	out.Flush()
	return out.Error()
}

// Pairs lists the columns of v with their values, as CSV writes them.
func Pairs(v any) (list [][2]string, err error) {
	columns, err := columnsOf(reflect.TypeOf(v), "")
	if err != nil {
		return nil, err
	}
	values := cells(nil, columns, reflect.ValueOf(v))
	for i, c := range columns {
		list = append(list, [2]string{c.name, values[i]})
	}
	return list, nil
}

// column is a field, found by its path in the struct.
type column struct {
	name string
	path []int
}

// columnsOf lists the columns of a struct's fields, those of structs in it included.
func columnsOf(t reflect.Type, prefix string) (list []column, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if renamed := f.Tag.Get("csv"); renamed != "" {
			tag = renamed
		}
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		inner := prefix
		switch {
		case tag == "" && !f.Anonymous:
			return nil, fmt.Errorf("csv: %s.%s has no name", t, f.Name)
		case tag != "":
			inner += tag + "_"
		}
		if f.Type.Kind() == reflect.Struct {
			more, err := columnsOf(f.Type, inner)
			if err != nil {
				return nil, err
			}
			for _, c := range more {
				c.path = append([]int{i}, c.path...)
				list = append(list, c)
			}
			continue
		}
		if !writable(f.Type) {
			return nil, fmt.Errorf("csv: %s.%s: a %s fits no cell", t, f.Name, f.Type)
		}
		list = append(list, column{prefix + tag, []int{i}})
	}
	for i, c := range list {
		if slices.ContainsFunc(list[:i], func(x column) bool { return x.name == c.name }) {
			return nil, fmt.Errorf("csv: two columns are called %s", c.name)
		}
	}
	return list, nil
}

// writable reports whether cell knows the type.
func writable(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice {
		t = t.Elem()
		if t.Implements(reflect.TypeFor[fmt.Stringer]()) {
			return true
		}
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64:
		return true
	}
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uint64
}

// cells appends the values of the columns.
func cells(line []string, columns []column, v reflect.Value) []string {
	for _, c := range columns {
		line = append(line, cell(v.FieldByIndex(c.path)))
	}
	return line
}

// cell is a value as text; nothing for a missing one.
func cell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return cell(v.Elem())
	case reflect.Slice:
		list, between := make([]string, v.Len()), " "
		for i := range list {
			x := v.Index(i)
			if s, ok := x.Interface().(fmt.Stringer); ok {
				list[i], between = s.String(), "; "
			} else {
				list[i] = cell(x)
			}
			if x.Kind() == reflect.String {
				between = "; "
			}
		}
		return strings.Join(list, between)
	case reflect.Float32:
		return strconv.FormatFloat(v.Float(), 'g', -1, 32)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}
