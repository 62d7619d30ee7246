// The same as drive.py for a sample in Go: drive SAMPLE POLICY KEY GOROUTINES CALLS.

package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	goroutines, _ := strconv.Atoi(os.Args[4])
	calls, _ := strconv.Atoi(os.Args[5])
	var all sync.WaitGroup
	var lock sync.Mutex
	admitted, longest := 0, time.Duration(0)
	ask := func() {
		defer all.Done()
		for i := 0; i < calls; i++ {
			start := time.Now()
			allowed, _, err := take(os.Args[2], os.Args[3])
			took := time.Since(start)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			lock.Lock()
			if allowed {
				admitted++
			}
			if took > longest {
				longest = took
			}
			lock.Unlock()
		}
	}
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go ask()
	}
	all.Wait()
	fmt.Printf("{\"admitted\": %d, \"longest\": %.3f}\n", admitted, longest.Seconds())
}
