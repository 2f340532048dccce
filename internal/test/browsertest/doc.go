// Package browsertest tests the dashboard in headless Chromium: every page and every action. Its tests are skipped
// unless LAZULI_BROWSER is set; .ci/browser installs the browser, and axe-core, which checks the pages' accessibility.
//
//	LAZULI_SCREENSHOTS=DIR   keep a screenshot of each page
//	LAZULI_AXE=axe.min.js    check accessibility
//	LAZULI_BROWSER=found     run if there is a browser
//	LAZULI_BROWSER=required  fail without one
package browsertest
