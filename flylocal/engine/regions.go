package engine

import "strings"

// Region is one of Fly's regions.
type Region struct {
	Code, Name          string
	Latitude, Longitude float64
	GeoRegion           string
}

// Regions are Fly's, by code.
var Regions = []Region{
	{"ams", "Amsterdam, Netherlands", 52.37, 4.9, "europe"},
	{"arn", "Stockholm, Sweden", 59.65, 17.92, "europe"},
	{"bom", "Mumbai, India", 19.07, 72.88, "asia_pacific"},
	{"cdg", "Paris, France", 48.86, 2.35, "europe"},
	{"dfw", "Dallas, Texas (US)", 32.78, -96.81, "north_america"},
	{"ewr", "Secaucus, NJ (US)", 40.79, -74.06, "north_america"},
	{"fra", "Frankfurt, Germany", 50.11, 8.68, "europe"},
	{"gru", "Sao Paulo, Brazil", -23.55, -46.63, "south_america"},
	{"iad", "Ashburn, Virginia (US)", 39.02, -77.54, "north_america"},
	{"jnb", "Johannesburg, South Africa", -26.2, 28.05, "africa"},
	{"lax", "Los Angeles, California (US)", 34.05, -118.24, "north_america"},
	{"lhr", "London, United Kingdom", 51.51, -0.13, "europe"},
	{"nrt", "Tokyo, Japan", 35.62, 139.75, "asia_pacific"},
	{"ord", "Chicago, Illinois (US)", 41.88, -87.62, "north_america"},
	{"sin", "Singapore, Singapore", 1.3, 103.86, "asia_pacific"},
	{"sjc", "San Jose, California (US)", 37.33, -121.89, "north_america"},
	{"syd", "Sydney, Australia", -33.87, 151.21, "asia_pacific"},
	{"yyz", "Toronto, Canada", 43.64, -79.38, "north_america"},
}

// aliases are the names that stand for a set of regions.
var aliases = map[string]string{"eu": "europe", "na": "north_america", "us": "north_america", "sa": "south_america", "af": "africa", "apac": "asia_pacific"}

// Nearest is the region in which the platform itself is.
func (w *World) Nearest() string { return w.region }

// regionsOf expands a wish such as "iad,dfw", "eu,any" or "" to concrete codes, in order of preference.
func (w *World) regionsOf(wish string) ([]string, error) {
	if wish == "" {
		wish = w.region
	}
	var codes []string
	for _, part := range strings.Split(wish, ",") {
		part = strings.TrimSpace(part)
		before := len(codes)
		if part == "any" {
			codes = append(codes, w.region)
		}
		for _, r := range Regions {
			if r.Code == part || part == "any" && r.Code != w.region || aliases[part] == r.GeoRegion {
				codes = append(codes, r.Code)
			}
		}
		if len(codes) == before {
			return nil, invalid("region %q not found", part)
		}
	}
	return codes, nil
}

// pickRegion answers the first region of a wish that has room.
func (w *World) pickRegion(wish string) (string, error) {
	codes, err := w.regionsOf(wish)
	if err != nil {
		return "", err
	}
	for _, code := range codes {
		if !w.full(code) {
			return code, nil
		}
	}
	return codes[0], nil
}

func (w *World) full(region string) bool {
	for _, r := range w.faults.NoCapacity {
		if r == region {
			return true
		}
	}
	return false
}
