package world

import "slices"

// Skin is a set of names for the variables of a world. It says nothing about what
// causes what: names are dealt out at random.
type Skin struct {
	Name string
	// Setting is what a question says first.
	Setting string
	Names   []string
}

// Nonsense is the skin that no prior belief is about.
const Nonsense = "nonsense"

// Skins lists the skins; the last is Nonsense.
var Skins = []Skin{
	{"linux", "A Linux host is monitored.", []string{"swap_pressure", "oom_kill", "disk_full", "cron_overlap", "io_wait", "dns_timeout", "fd_leak", "clock_skew", "cache_eviction", "unit_restart", "log_burst", "packet_loss"}},
	{"washroom", "Washrooms of an office building report to an operations desk.", []string{"paper_low", "soap_empty", "door_stuck", "tap_running", "bin_full", "visitor_peak", "cleaning_late", "leak_alarm", "heater_off", "light_fault", "odour_report", "floor_wet"}},
	{"logistics", "A parcel network is watched.", []string{"truck_late", "dock_blocked", "label_smudged", "route_changed", "weather_hold", "customs_check", "pallet_short", "driver_swap", "scan_missed", "depot_full", "fuel_stop", "van_spare"}},
	{"sensors", "A field of sensors reports to a hub.", []string{"node_hot", "battery_low", "antenna_wet", "drift_high", "relay_open", "dust_alarm", "valve_shut", "pump_idle", "gate_raised", "frost_flag", "shade_on", "fan_loud"}},
	{"physics", "A bench experiment is run again and again.", []string{"laser_on", "mirror_tilted", "gas_ionised", "coil_warm", "beam_split", "shutter_open", "field_strong", "plate_charged", "probe_damp", "lens_fogged", "pulse_seen", "vacuum_held"}},
	{"fiction", "In the kingdom of an invented tale, these things happen or do not.", []string{"bell_rings", "dragon_wakes", "river_frozen", "crown_lost", "harvest_rich", "owl_speaks", "tower_dark", "feast_held", "lamp_blue", "ship_returns", "moon_red", "wall_sings"}},
	{"people", "In a declared simulator the characters are invented, and nothing here is about real people.", []string{"ava_calls", "ben_smiles", "cleo_is_late", "dov_apologises", "eli_leaves", "fay_writes", "gus_jokes", "hana_waits", "ivo_listens", "jun_cooks", "kai_sings", "lou_naps"}},
	{Nonsense, "Nothing is known about these things but what is said here.", []string{"blorp", "quix", "zandle", "fremp", "toova", "glimmick", "snarb", "wexel", "drundle", "yaffit", "plonk", "kribble"}},
}

// SkinNamed finds a skin.
func SkinNamed(name string) (Skin, bool) {
	i := slices.IndexFunc(Skins, func(s Skin) bool { return s.Name == name })
	if i < 0 {
		return Skin{}, false
	}
	return Skins[i], true
}

// Deal gives each variable one of the skin's names.
func (s Skin) Deal(r *Rand, variables []string) map[string]string {
	names := slices.Clone(s.Names)
	Shuffle(r, names)
	out := make(map[string]string, len(variables))
	for i, v := range variables {
		out[v] = names[i]
	}
	return out
}
