package events

// UsageRecorded is what a model call or a background job used (C8 14). Of several
// records with one message id the first counts.
type UsageRecorded struct {
	Context         `json:"context"`
	MessageID       *string  `json:"message_id,omitzero"` // the provider's
	Provider        *string  `json:"provider,omitzero"`
	Model           *string  `json:"model,omitzero"`
	ModelVersion    *string  `json:"model_version,omitzero"`
	Status          *string  `json:"status,omitzero"`   // as in ToolCalled; failed calls cost as well
	Attempts        *int64   `json:"attempts,omitzero"` // retries included
	Tokens          *Tokens  `json:"tokens,omitzero"`
	UsageConvention *string  `json:"usage_convention,omitzero"` // as in ToolCalled
	StartedAt       *string  `json:"started_at,omitzero"`
	EndedAt         *string  `json:"ended_at,omitzero"`
	LatencyMS       *float64 `json:"latency_ms,omitzero"` // milliseconds, retries included
	LedgerWrites    *int64   `json:"ledger_writes,omitzero"`
	Background      *bool    `json:"background,omitzero"` // it ran outside of any turn
	CPUSeconds      *float64 `json:"cpu_seconds,omitzero"`
	GPUSeconds      *float64 `json:"gpu_seconds,omitzero"`
	CostUSD         *float64 `json:"cost_usd,omitzero"` // as the provider charged it; nil: to be computed from a PriceRecorded
}

// PriceRecorded is a dated price. It holds from ValidFrom until ValidTo, or until a
// later one of the same model begins.
type PriceRecorded struct {
	Context          `json:"context"`
	PriceID          string   `json:"price_id"`
	Provider         *string  `json:"provider,omitzero"` // nil: any
	Model            string   `json:"model"`
	ModelVersion     *string  `json:"model_version,omitzero"` // nil: any
	ValidFrom        string   `json:"valid_from"`
	ValidTo          *string  `json:"valid_to,omitzero"`           // exclusive
	InputUSDPerMTok  *float64 `json:"input_usd_per_mtok,omitzero"` // a million uncached input tokens
	CachedUSDPerMTok *float64 `json:"cached_usd_per_mtok,omitzero"`
	OutputUSDPerMTok *float64 `json:"output_usd_per_mtok,omitzero"`
	CPUUSDPerHour    *float64 `json:"cpu_usd_per_hour,omitzero"`
	GPUUSDPerHour    *float64 `json:"gpu_usd_per_hour,omitzero"`
	Source           *string  `json:"source,omitzero"` // where it was read
}
