package flaps

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
)

func truth(text string) bool {
	yes, err := strconv.ParseBool(text)
	return err == nil && yes
}

// number reads a whole number that is not negative; an empty text is zero.
func number(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badRequest("want a whole number, got " + strconv.Quote(text))
	}
	return n, nil
}

// list collects a parameter that may be repeated and may hold commas.
func list(q url.Values, key string) []string {
	var all []string
	for _, value := range q[key] {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}

func filterOf(r *http.Request) engine.MachineFilter {
	q := r.URL.Query()
	f := engine.MachineFilter{Region: q.Get("region"), States: list(q, "state"), IncludeDeleted: truth(q.Get("include_deleted"))}
	for key, values := range q {
		if name, ok := strings.CutPrefix(key, "metadata."); ok && len(values) > 0 {
			if f.Metadata == nil {
				f.Metadata = map[string]string{}
			}
			f.Metadata[name] = values[len(values)-1]
		}
	}
	return f
}

func pageOf(r *http.Request) (engine.Page, error) {
	q := r.URL.Query()
	page := engine.Page{Cursor: q.Get("cursor")}
	var err error
	if page.Limit, err = number(q.Get("limit")); err != nil {
		return page, err
	}
	if text := q.Get("updated_after"); text != "" {
		if page.UpdatedAfter, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return page, badRequest("updated_after: want an RFC 3339 time, got " + strconv.Quote(text))
		}
	}
	return page, nil
}
