package flyapi_test

import (
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

func TestOrgListIsReadToItsEndWithTheLatestRowOfEachMachine(t *testing.T) {
	s := &script{answer: func(c call, n int) answer {
		if !strings.Contains(c.query, "limit=1000") {
			t.Errorf("query %s", c.query)
		}
		switch {
		case strings.Contains(c.query, "cursor=two"):
			return ok(`{"machines":[{"id":"m1","app_name":"a","instance_id":"02","config":{"image":"r@sha256:new"}}],"error_regions":["ams","lhr"],"next_cursor":""}`)
		case n == 1:
			return ok(`{"machines":[{"id":"m1","app_name":"a","instance_id":"01"},{"id":"m2","app_name":"b","state":"stopped","image_ref":{"digest":"sha256:x"},"config":{"image":"r@sha256:y","metadata":{"k":"v","odd":7}}}],"error_regions":["ams"],"next_cursor":"two"}`)
		}
		t.Errorf("asked for %s", c.query)
		return ok(`{}`)
	}}
	list, err := client(t, s).OrgMachines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Rows) != 2 || list.Rows[0].InstanceID != "02" || list.Rows[0].Digest != "sha256:new" || list.Rows[1].Digest != "sha256:x" || list.Rows[1].Metadata["k"] != "v" {
		t.Fatalf("rows %+v", list.Rows)
	}
	if strings.Join(list.ErrorRegions, " ") != "ams lhr" {
		t.Fatalf("regions %v", list.ErrorRegions)
	}
}

func TestOrgListNeedsAnOrganization(t *testing.T) {
	c := client(t, &script{}, func(c *flyapi.Config) { c.Org = "" })
	if _, err := c.OrgMachines(t.Context()); err == nil || !strings.Contains(err.Error(), "FLY_ORG") {
		t.Fatalf("error %v", err)
	}
}

func TestAddressesOfAllAppsComeByPages(t *testing.T) {
	s := &script{answer: func(c call, n int) answer {
		switch {
		case strings.Contains(c.body, "organization(slug"):
			return ok(`{"data":{"organization":{"id":"org_1"}}}`)
		case strings.Contains(c.body, `"after":"p2"`):
			return ok(`{"data":{"apps":{"pageInfo":{"hasNextPage":false},"nodes":[{"name":"b","sharedIpAddress":"1.2.3.4","ipAddresses":{"nodes":[]}}]}}}`)
		}
		return ok(`{"data":{"apps":{"pageInfo":{"hasNextPage":true,"endCursor":"p2"},"nodes":[{"name":"a","ipAddresses":{"nodes":[{"address":"fdaa::3","type":"private_v6","network":{"name":"rt"},"createdAt":"2026-01-02T03:04:05Z"}]}}]}}}`)
	}}
	list, err := client(t, s).ListOrgAddresses(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	if a := list[0]; a.App != "a" || a.IP != "fdaa::3" || a.Type != flyapi.AddressPrivateV6 || a.Network != "rt" || a.CreatedAt.IsZero() {
		t.Errorf("first %+v", a)
	}
	if a := list[1]; a.App != "b" || a.Type != flyapi.AddressSharedV4 {
		t.Errorf("second %+v", a)
	}
	if len(s.asked()) != 3 {
		t.Errorf("asked %v", s.asked())
	}
}

// GraphQL says its errors with status 200.
func TestGraphQLErrorIsAnError(t *testing.T) {
	s := &script{answer: func(call, int) answer {
		return ok(`{"data":null,"errors":[{"message":"Could not find Organization","extensions":{"code":"NOT_FOUND"}}]}`)
	}}
	_, err := client(t, s).ListOrgAddresses(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Could not find Organization") {
		t.Fatalf("error %v", err)
	}
}
