#!/usr/bin/env perl
# SPDX-License-Identifier: Apache-2.0
# Writes src/text/unicode_tables.cpp: the categories Mn, P* and Cf as Unicode 9.0 had them, which is
# what the Hugging Face tokenizer's crate (unicode_categories 0.1.1) knows. From Perl's own data:
#   perl scripts/make_unicode_tables.pl > src/text/unicode_tables.cpp
use strict;
use warnings;

# Perl knows the version in which a character appeared, but only its current category. These changed between 9.0 and
# 14.0: U+166D from Po to So, U+1734 from Mn to Mc, U+A9BD from Mc to Mn.
my %is = (
  Mn => sub { my $c = shift; $c == 0x1734 || ($c != 0xA9BD && chr($c) =~ /\p{Gc=Mn}/) },
  P  => sub { my $c = shift; $c == 0x166D || chr($c) =~ /\p{Gc=P}/ },
  Cf => sub { my $c = shift; chr($c) =~ /\p{Gc=Cf}/ },
);
my @tables = (['kNonspacingMarks', 'Mn'], ['kPunctuation', 'P'], ['kFormat', 'Cf']);

print "// SPDX-License-Identifier: Apache-2.0\n// Written by scripts/make_unicode_tables.pl.\n";
print "// clang-format off\n#include \"text/unicode_tables.h\"\n\nnamespace hydramix::unicode {\n";
for my $table (@tables) {
  my ($name, $category) = @$table;
  my @ranges;
  for my $c (0 .. 0x10FFFF) {
    next if $c >= 0xD800 && $c <= 0xDFFF;
    next unless chr($c) =~ /\p{Present_In: 9.0}/ && $is{$category}->($c);
    if (@ranges && $ranges[-1][1] == $c - 1) { $ranges[-1][1] = $c }
    else { push @ranges, [$c, $c] }
  }
  printf "\nconst std::array<Range, %d> %s = {{\n", scalar @ranges, $name;
  my $line = ' ';
  for my $range (@ranges) {
    my $text = sprintf ' {0x%X, 0x%X},', @$range;
    if (length($line) + length($text) > 100) { print "$line\n"; $line = ' ' }
    $line .= $text;
  }
  print "$line\n}};\n";
}
print "\n}  // namespace hydramix::unicode\n";
