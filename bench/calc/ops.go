package calc

// ops is every op by its name.
var ops = map[string]op{
	"auroc":             opOf(auroc),
	"binomial_test":     opOf(binomialTest),
	"bootstrap":         opOf(bootstrap),
	"brier":             opOf(brier),
	"cluster_bootstrap": opOf(clusterBootstrap),
	"cohen_kappa":       opOf(cohenKappa),
	"ece":               opOf(ece),
	"log_loss":          opOf(logLoss),
	"mcnemar":           opOf(mcnemar),
	"noninferiority":    opOf(nonInferiority),
	"power":             opOf(power),
	"proportion_ci":     opOf(proportionCI),
	"tost":              opOf(tost),
}
