// Package browsertest tests the dashboard in headless Chromium: every page and every action. Its tests are skipped if
// there is no browser; .ci/browser installs one, and axe-core, which checks the pages' accessibility.
//
//	LAZULI_SCREENSHOTS=DIR   keep a screenshot of each page
//	LAZULI_AXE=axe.min.js    check accessibility
//	LAZULI_BROWSER=required  fail in place of skipping
package browsertest
