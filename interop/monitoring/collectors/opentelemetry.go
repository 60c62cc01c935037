// Reads mntr and ruok with the ZooKeeper scraper of the OpenTelemetry collector. Prints the state and each metric with its
// kind, unit and value, sorted.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/scraper/zookeeperscraper"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/scraper"
)

func scrape(address string) (pmetric.Metrics, error) {
	factory := zookeeperscraper.NewFactory()
	config := factory.CreateDefaultConfig().(*zookeeperscraper.Config)
	config.TCPAddrConfig.Endpoint = address
	settings := scraper.Settings{TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	background := context.Background()
	reader, err := factory.CreateMetrics(background, settings, config)
	if err != nil {
		return pmetric.Metrics{}, err
	}
	if err := reader.Start(background, componenttest.NewNopHost()); err != nil {
		return pmetric.Metrics{}, err
	}
	limited, cancel := context.WithTimeout(background, 20*time.Second)
	defer cancel()
	return reader.ScrapeMetrics(limited)
}

func points(metric pmetric.Metric) (string, pmetric.NumberDataPointSlice) {
	if metric.Type() == pmetric.MetricTypeSum {
		kind := "gauge"
		if metric.Sum().IsMonotonic() {
			kind = "counter"
		}
		return kind, metric.Sum().DataPoints()
	}
	return "gauge", metric.Gauge().DataPoints()
}

func main() {
	metrics, err := scrape(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var lines []string
	for _, resource := range metrics.ResourceMetrics().All() {
		attributes := map[string]string{}
		resource.Resource().Attributes().Range(func(name string, value pcommon.Value) bool {
			attributes[name] = value.AsString()
			return true
		})
		lines = append(lines, "state zookeeper "+attributes["server.state"])
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				kind, data := points(metric)
				for _, point := range data.All() {
					name := metric.Name()
					point.Attributes().Range(func(_ string, value pcommon.Value) bool {
						name += "." + value.AsString()
						return true
					})
					lines = append(lines, fmt.Sprintf("field %s %s/%s %d", name, kind, metric.Unit(), point.IntValue()))
				}
			}
		}
	}
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
}
