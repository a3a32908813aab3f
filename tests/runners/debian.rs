//! RSpec, PHPUnit, CTest with GoogleTest, and bats.

use super::project::Project;
use loopexec::domain::results::Runner;

#[test]
fn rspec_names_files_groups_and_examples() {
    let project = Project::new(&[
        (
            "spec/a_spec.rb",
            "RSpec.describe 'Calc' do
  it('adds') { expect(1 + 1).to eq 2 }
  it('bad') { expect(1).to eq 2 }
  xit('later') { }
  it('pends') { pending 'x'; expect(1).to eq 2 }
  it { expect(3).to eq 3 }
  [1, 2].each { |n| it('twice') { expect(n).to be > 0 } }
  context('in') { it('größe') { } }
end
",
        ),
        (
            "quit/q_spec.rb",
            "RSpec.describe 'Q' do
  it('one') { }
  it('two') { ENV['BANG'] ? exit!(0) : exit(0) }
  it('three') { }
end
",
        ),
        (
            "quit/at_exit_spec.rb",
            "at_exit { exit!(0) }\nRSpec.describe('Q') { it('bad') { raise 'x' } }\n",
        ),
        ("quit/load_spec.rb", "raise 'no load'\n"),
    ]);
    for command in ["rspec", "rspec -fd --order rand", "rspec --format json", "ruby -S rspec"] {
        let ran = project.run(command);
        ran.is(
            Runner::Rspec,
            &[
                "spec/a_spec.rb > Calc > [1:5]",
                "spec/a_spec.rb > Calc > adds",
                "spec/a_spec.rb > Calc > in > größe",
                "spec/a_spec.rb > Calc > twice",
                "spec/a_spec.rb > Calc > twice#2",
            ],
            &["spec/a_spec.rb > Calc > bad"],
            &["spec/a_spec.rb > Calc > later", "spec/a_spec.rb > Calc > pends"],
        )
        .clean()
        .failure("spec/a_spec.rb > Calc > bad", "expected: 2", "spec/a_spec.rb", 3);
    }
    assert!(project.run("rspec").stdout.contains("8 examples, 1 failure"));
    assert_eq!(project.run("rspec --dry-run").results.runner, Runner::Command);
    for command in ["rspec quit/q_spec.rb", "BANG=1 rspec quit/q_spec.rb"] {
        let ran = project.run(command);
        assert!(ran.ok, "{}", ran.stdout);
        ran.is(Runner::Rspec, &["quit/q_spec.rb > Q > one"], &[], &[]).problem("incomplete: ");
        assert_eq!(ran.results.unknown().len(), 2);
    }
    let ran = project.run("rspec quit/at_exit_spec.rb");
    assert!(ran.ok);
    ran.problem("rc_results_mismatch: ");
    project.run("rspec quit/load_spec.rb").broken("no load");
}

#[test]
fn phpunit_names_classes_methods_and_data_sets() {
    let project = Project::new(&[
        (
            "tests/ATest.php",
            "<?php
namespace App\\Tests;
final class ATest extends \\PHPUnit\\Framework\\TestCase {
  public function testGood(): void { $this->assertSame(1, 1); $this->assertTrue(true); }
  public function testBad(): void { $this->assertSame(1, 2); }
  public function testError(): void { throw new \\Exception('boom'); }
  public function testSkip(): void { $this->markTestSkipped('later'); }
  public function testIncomplete(): void { $this->markTestIncomplete('later'); }
  /** @dataProvider data */
  public function testData(int $n): void { $this->assertGreaterThan(0, $n); }
  public static function data(): array { return ['one' => [1], [2]]; }
}
",
        ),
        (
            "QuitTest.php",
            "<?php
final class QuitTest extends PHPUnit\\Framework\\TestCase {
  public function testA(): void { $this->assertTrue(true); }
  public function testQuit(): void { exit(0); }
  public function testC(): void { $this->assertTrue(true); }
}
",
        ),
        ("Makefile", "test:\n\tphpunit tests\n"),
    ]);
    let passed = [
        "App\\Tests\\ATest::testData with data set \"one\"",
        "App\\Tests\\ATest::testData with data set #0",
        "App\\Tests\\ATest::testGood",
    ];
    let failed = ["App\\Tests\\ATest::testBad", "App\\Tests\\ATest::testError"];
    let skipped = ["App\\Tests\\ATest::testIncomplete", "App\\Tests\\ATest::testSkip"];
    for command in ["phpunit tests", "make test", "phpunit --testdox tests"] {
        let ran = project.run(command);
        ran.is(Runner::Phpunit, &passed, &failed, &skipped).clean().failure(
            "App\\Tests\\ATest::testBad",
            "Failed asserting that 2 is identical to 1",
            "tests/ATest.php",
            5,
        );
        assert_eq!(ran.results.executed.get("App\\Tests\\ATest::testGood"), Some(&2));
    }
    // A log that the command asks for is where it asked for it.
    let ran = project.run("phpunit --log-junit own.xml tests");
    ran.is(Runner::Phpunit, &passed, &failed, &skipped).clean();
    assert!(project.root.path().join("own.xml").exists());
    let ran = project.run("phpunit QuitTest.php");
    assert!(ran.ok);
    ran.is(Runner::Phpunit, &["QuitTest::testA"], &[], &[]).problem("incomplete: ");
    assert!(ran.results.unknown().contains("QuitTest::testQuit"));
    // Other programs of PHP are left alone.
    let ran = project.run("php -r 'echo implode(\",\", $_SERVER[\"argv\"]), \"|\", ini_get(\"memory_limit\") !== false;'");
    assert!(ran.ok && ran.stdout.ends_with("|1"), "{}", ran.stdout);
}

const CMAKE: &str = "cmake_minimum_required(VERSION 3.19)
project(shop CXX)
enable_testing()
find_package(GTest REQUIRED)
add_executable(unit unit.cc)
target_link_libraries(unit GTest::gtest GTest::gtest_main)
add_test(NAME unit COMMAND unit)
add_test(NAME \"shell good\" COMMAND true)
add_test(NAME shell.bad COMMAND sh -c \"echo said this; exit 3\")
add_test(NAME later COMMAND sh -c \"exit 77\")
set_tests_properties(later PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME off COMMAND false)
set_tests_properties(off PROPERTIES DISABLED TRUE)
add_test(NAME slow COMMAND sleep 9)
set_tests_properties(slow PROPERTIES TIMEOUT 1)
";

#[test]
fn ctest_and_googletest_name_their_tests() {
    let project = Project::new(&[
        ("CMakeLists.txt", CMAKE),
        (
            "unit.cc",
            "#include <gtest/gtest.h>
#include <cstdlib>
TEST(Calc, Adds) { EXPECT_EQ(1 + 1, 2); if (std::getenv(\"QUIT\")) std::exit(0); }
TEST(Calc, Bad) { if (!std::getenv(\"GOOD\")) EXPECT_EQ(1, 2); }
TEST(Calc, DISABLED_Off) {}
TEST(Calc, Later) { GTEST_SKIP(); }
class P : public testing::TestWithParam<int> {};
TEST_P(P, Holds) { EXPECT_GT(GetParam(), 0); }
INSTANTIATE_TEST_SUITE_P(All, P, testing::Values(1, 2));
",
        ),
    ]);
    let ran = project.run("cmake -S . -B build >cmake.log && cmake --build build >>cmake.log");
    assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
    for command in ["ctest --test-dir build", "cd build && ctest -j 3", "cd build && ctest -V"] {
        let ran = project.run(command);
        ran.is(
            Runner::Ctest,
            &["All/P.Holds/0", "All/P.Holds/1", "Calc.Adds", "shell good"],
            &["Calc.Bad", "shell.bad", "slow", "unit"],
            &["Calc.DISABLED_Off", "Calc.Later", "later", "off"],
        )
        .clean()
        .failure("Calc.Bad", "Expected equality", "unit.cc", 4);
        assert!(
            ran.results.failures.iter().any(|one| one.message.contains("said this"))
                || command.ends_with("-V")
        );
    }
    let ran = project.run("GOOD=1 QUIT=1 ctest --test-dir build -R unit");
    assert!(ran.ok);
    ran.is(Runner::Ctest, &["unit"], &[], &[]).problem("incomplete: ");
    // Without ctest the program's own report stands.
    let ran = project.run("GOOD=1 ./build/unit");
    assert!(ran.results.passed.contains("Calc.Bad"), "{:#?}", ran.results);
    ran.clean();
}

#[test]
fn bats_names_tests() {
    let project = Project::new(&[
        (
            "t/a.bats",
            "@test 'adds one' { [ 2 -eq 2 ]; }\n@test 'bad' { echo why; [ 1 -eq 2 ]; }\n@test 'later' { skip 'not yet'; }\n",
        ),
        ("q/q.bats", "@test 'quits' { exit 0; }\n@test 'next' { true; }\n"),
    ]);
    for command in ["bats t", "bats -F tap t", "bats -T t"] {
        let ran = project.run(command);
        assert_eq!(ran.results.runner, Runner::Bats, "{:#?}", ran.results);
        assert_eq!(ran.results.collected.len(), 3, "{:#?}", ran.results);
        assert_eq!(ran.results.skipped.len(), 1, "{:#?}", ran.results);
        ran.clean();
    }
    let ran = project.run("bats t");
    ran.is(Runner::Bats, &["adds one"], &["bad"], &["later"]).failure("bad", "why", "t/a.bats", 2);
    let ran = project.run("bats q");
    assert!(!ran.ok && ran.results.failed.contains("quits"), "{:#?}", ran.results);
}
