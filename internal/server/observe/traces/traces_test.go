package traces

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, tc := range []struct {
		name   string
		env    map[string]string
		wanted bool
		fails  bool
	}{
		{"nothing", nil, false, false},
		{"an endpoint", map[string]string{endpoint: "http://x"}, true, false},
		{"one for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true, false},
		{"disabled", map[string]string{endpoint: "http://x", "OTEL_SDK_DISABLED": "TRUE"}, false, false},
		{"no exporter", map[string]string{endpoint: "http://x", "OTEL_TRACES_EXPORTER": "none"}, false, false},
		{"another exporter", map[string]string{endpoint: "http://x", "OTEL_TRACES_EXPORTER": "zipkin"}, false, true},
		{"another protocol", map[string]string{endpoint: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, true},
		{"this protocol", map[string]string{endpoint: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true,
			false},
	} {
		wanted, err := wanted(func(name string) string { return tc.env[name] })
		if wanted != tc.wanted {
			t.Errorf("%s: wanted is %v, want %v", tc.name, wanted, tc.wanted)
		}
		if (err != nil) != tc.fails {
			t.Errorf("%s: error %v; want one: %v", tc.name, err, tc.fails)
		}
	}
}

// What is traced arrives where the environment says.
func TestStart(t *testing.T) {
	paths := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	stop, err := Start(t.Context(), "test", "1", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "span")
	span.End()
	if err := stop(context.Background()); err != nil {
		t.Error(err)
	}
	if path := <-paths; path != "/v1/traces" {
		t.Error(path)
	}
}
