package calc

// ops is every op by its name.
var ops = map[string]op{
	"auroc":                opOf(auroc),
	"binomial_test":        opOf(binomialTest),
	"bootstrap":            opOf(bootstrap),
	"bounds":               opOf(bounds),
	"brier":                opOf(brier),
	"cluster_bootstrap":    opOf(clusterBootstrap),
	"cohen_kappa":          opOf(cohenKappa),
	"decision":             opOf(decision),
	"ece":                  opOf(ece),
	"effect":               opOf(effect),
	"evidence_probability": opOf(evidenceProbability),
	"log_loss":             opOf(logLoss),
	"mcnemar":              opOf(mcnemar),
	"noninferiority":       opOf(nonInferiority),
	"posterior":            opOf(posterior),
	"power":                opOf(power),
	"proportion_ci":        opOf(proportionCI),
	"scm":                  opOf(scmRungs),
	"tost":                 opOf(tost),
}
