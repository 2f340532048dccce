package faultdoors

// Rule is one fault rule in several forms.
type Rule struct {
	// JSON is the rule as the admin listener and the seed file take it.
	JSON string
	// Flags are those of `lazuli fault create`.
	Flags string
	// Form are names and values of the dashboard's form, separated by "|"; "" for a rule that only its JSON field takes.
	Form string
	// Header says that a request can ask for the rule.
	Header bool
}

// Rules have every action and every condition.
var Rules = []Rule{
	{`{"error":"ServerBusy"}`, `--error ServerBusy`, `kind|ServerBusy`, true},
	{`{"error":"ServerBusy","retryAfter":"2s"}`, `--error ServerBusy --retry-after 2s`, `kind|ServerBusy|retryAfter|2s`,
		true},
	{`{"error":"OperationTimedOut"}`, `--error OperationTimedOut`, `kind|OperationTimedOut`, true},
	{`{"error":"InternalError"}`, `--error InternalError`, `kind|InternalError`, true},
	{`{"delay":"5ms"}`, `--delay 5ms`, `kind|delay|amount|5ms`, true},
	{`{"slow":1000000}`, `--slow 1000000`, `kind|slow|amount|1000000`, true},
	{`{"delay":"5ms","slow":1000000,"unanswered":true}`, `--delay 5ms --slow 1000000 --unanswered`, ``, true},
	{`{"reset":"before"}`, `--reset before`, `kind|before`, true},
	{`{"reset":"during"}`, `--reset during`, `kind|during`, true},
	{`{"reset":"after"}`, `--reset after`, `kind|after`, true},
	{`{"truncate":1}`, `--truncate 1`, `kind|truncate|amount|1`, true},
	{`{"corrupt":0}`, `--corrupt 0`, `kind|corrupt|amount|0`, true},
	{`{"corrupt":0,"corruptRequest":true}`, `--corrupt 0 --corrupt-request`, `kind|corruptRequest|amount|0`, true},
	{`{"unanswered":true}`, `--unanswered`, `kind|unanswered`, true},
	{`{"throttle":{"requests":0.001,"per":"container"}}`, `--throttle-requests 0.001 --throttle-per container`,
		`kind|throttle|amount|0.001|per|container`, false},
	{`{"throttle":{"bytes":0.001,"per":"partition"}}`, `--throttle-bytes 0.001 --throttle-per partition`,
		`kind|throttleBytes|amount|0.001|per|partition`, false},
	{`{"retryAfter":"1s","throttle":{"partitionEntities":2000,"accountEntities":20000}}`, `--azure-table-limits`,
		`kind|tableLimits`, false},
	{`{"throttle":{"partitionEntities":1,"accountEntities":2}}`,
		`--throttle-partition-entities 1 --throttle-account-entities 2`, ``, false},
	{`{"secondary":{"lag":"10m0s"}}`, `--secondary-lag 10m`, `kind|lag|amount|10m`, false},
	{`{"secondary":{"status":"bootstrap"}}`, `--secondary-status bootstrap`, ``, false},
	{`{"secondary":{"lag":"10m0s","failedOver":true}}`, `--failed-over --secondary-lag 10m`, `kind|failover|amount|10m`,
		false},
	{`{"name":"mine","service":"blob","operation":"PutBlob","resource":"photos/*","account":"devstoreaccount1","client":"azsdk-go-*","endpoint":"primary","skip":1,"nth":2,"share":0.5,"seed":3,"count":4,"for":"1h0m0s","unanswered":true}`,
		`--name mine --service blob --operation PutBlob --resource photos/* --account devstoreaccount1 --client azsdk-go-* --endpoint primary --skip 1 --nth 2 --share 0.5 --seed 3 --count 4 --for 1h --unanswered`,
		`name|mine|service|blob|operation|PutBlob|resource|photos/*|account|devstoreaccount1|client|azsdk-go-*|endpoint|primary|skip|1|nth|2|share|0.5|seed|3|count|4|for|1h|kind|unanswered`, false},
}
