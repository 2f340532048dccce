'use strict';
// Patterns of files, as the member main of an app's package.json has them: * ? [a-z] ** {a,b} and the forms @(a|b),
// ?(a|b), *(a|b), +(a|b) and !(a|b) of names.

const fs = require('node:fs');
const path = require('node:path');

// braces returns the patterns that {a,b} stands for.
function braces(pattern) {
    let depth = 0;
    let from = -1;
    let commas = [];
    for (let i = 0; i < pattern.length; i++) {
        const c = pattern[i];
        if (c === '{' && depth++ === 0) {
            from = i;
            commas = [];
        } else if (c === ',' && depth === 1) {
            commas.push(i);
        } else if (c === '}' && depth > 0 && --depth === 0 && commas.length > 0) {
            const cuts = [from, ...commas, i];
            return cuts.slice(1).flatMap((cut, n) =>
                braces(pattern.slice(0, from) + pattern.slice(cuts[n] + 1, cut) + pattern.slice(i + 1)));
        }
    }
    return [pattern];
}

// segment makes a regular expression of a pattern without slashes.
function segment(pattern) {
    let text = '';
    const open = [];
    for (let i = 0; i < pattern.length; i++) {
        const c = pattern[i];
        if ('@?*+!'.includes(c) && pattern[i + 1] === '(') {
            open.push(c);
            text += c === '!' ? '(?!(?:' : '(?:';
            i++;
        } else if (c === ')' && open.length > 0) {
            const kind = open.pop();
            text += kind === '!' ? ')$)[^/]*' : ')' + (kind === '@' ? '' : kind);
        } else if (c === '|' && open.length > 0) {
            text += '|';
        } else if (c === '*') {
            text += '[^/]*';
        } else if (c === '?') {
            text += '[^/]';
        } else if (c === '[' && pattern.indexOf(']', i + 2) > 0) {
            const end = pattern.indexOf(']', i + 2);
            text += '[' + pattern.slice(i + 1, end).replace(/^!/, '^').replace(/\\/g, '\\\\') + ']';
            i = end;
        } else {
            text += c.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
        }
    }
    // A name that begins with a dot is matched by a pattern that does, too.
    return new RegExp('^' + (pattern.startsWith('.') ? '' : '(?!\\.)') + text + '$');
}

function isMagic(pattern) {
    return /[*?[\]{}]|[@+!]\(/.test(pattern);
}

function find(dir, parts, prefix, found) {
    const [first, ...rest] = parts;
    if (first === undefined) {
        found.add(prefix);
        return;
    }
    if (first === '.' || first === '') {
        find(dir, rest, prefix, found);
        return;
    }
    if (!isMagic(first)) {
        const name = prefix ? prefix + '/' + first : first;
        if (fs.existsSync(path.join(dir, name))) {
            find(dir, rest, name, found);
        }
        return;
    }
    let entries;
    try {
        entries = fs.readdirSync(path.join(dir, prefix), { withFileTypes: true });
    } catch {
        return;
    }
    entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    if (first === '**') {
        find(dir, rest.length > 0 ? rest : ['*'], prefix, found);
    }
    const match = first === '**' ? /^[^.]/ : segment(first);
    for (const entry of entries) {
        if (!match.test(entry.name)) {
            continue;
        }
        const name = prefix ? prefix + '/' + entry.name : entry.name;
        if (first === '**') {
            // Folders by links are not entered: they may lead back.
            if (entry.isDirectory()) {
                find(dir, parts, name, found);
            }
        } else {
            find(dir, rest, name, found);
        }
    }
}

// files returns the files below a folder that match a pattern, as paths relative to it with slashes. A folder stands for
// all files below it. Those of {a,b} come in the order of its alternatives, others by name.
function files(dir, pattern) {
    const found = new Set();
    for (const alternative of braces(pattern.replace(/\\/g, '/'))) {
        let parts = path.posix.normalize(alternative).split('/');
        const named = new Set();
        find(dir, parts, '', named);
        for (const name of named) {
            const stat = fs.statSync(path.join(dir, name), { throwIfNoEntry: false });
            if (stat?.isDirectory()) {
                find(dir, ['**', '*'], name, found);
            } else if (stat) {
                found.add(name);
            }
        }
    }
    return [...found].filter((name) => fs.statSync(path.join(dir, name), { throwIfNoEntry: false })?.isFile());
}

module.exports = { files, isMagic };
