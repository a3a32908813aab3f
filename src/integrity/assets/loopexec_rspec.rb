# Loaded into every Ruby process: waits for RSpec and listens to its reporter, beside the formatters
# that the run has. Every record is written at once.
module LoopexecResults
  OWNER = "LOOPEXEC_RESULTS_RB".freeze

  # Listens to one run.
  class Listener
    def initialize(emit, world)
      @emit = emit
      @ids = {}
      world.example_groups.each do |group|
        group.descendant_filtered_examples.each { |example| @emit.call(own(example).merge("k" => "collect")) }
      end
    rescue StandardError
      nil
    end

    def example_passed(told)
      result(told.example, "passed")
    end

    def example_failed(told)
      result(told.example, "failed")
    end

    def example_pending(told)
      result(told.example, "skipped")
    end

    private

    def result(example, outcome)
      record = own(example).merge("k" => "result", "o" => outcome)
      record.merge!(explain(example)) if outcome == "failed"
      @emit.call(record)
    rescue StandardError
      nil
    end

    # An example without a description is given one by what it expects, after it ran.
    def own(example)
      @ids[example.id] ||= begin
        file, ordinal = example.id.match(/\A(.*)(\[[\d:]+\])\z/m).captures
        groups = example.example_group.parent_groups.reverse.map { |group| group.description.to_s }
        unnamed = Array(example.metadata[:description_args]).empty?
        { "f" => file, "path" => groups + [unnamed ? ordinal : example.description.to_s] }
      end
    end

    def explain(example)
      error = example.execution_result.exception
      trace = Array(error.backtrace)
      path = File.expand_path(example.metadata[:file_path].to_s)
      line = trace.map { |frame| frame[/\A#{Regexp.escape(path)}:(\d+)/, 1] }.compact.first
      text = "#{error.class}: #{error.message}\n#{trace.first(8).join("\n")}"
      { "m" => text, "l" => (line || example.metadata[:line_number]).to_i }
    end
  end

  # Wraps what runs the examples.
  module Reporting
    def report(*args)
      emit = LoopexecResults.open_file
      return super unless emit

      begin
        listener = Listener.new(emit, ::RSpec.world)
        register_listener(listener, :example_passed, :example_failed, :example_pending)
      rescue StandardError
        nil
      end
      result = super
      emit.call("k" => "end")
      result
    end

    def notify_non_example_exception(error, *args)
      begin
        emit = LoopexecResults.open_file
        emit && emit.call("k" => "broken", "m" => "#{error.class}: #{error.message}")
      rescue StandardError
        nil
      end
      super
    end
  end

  class << self
    def install
      return if ENV["LOOPEXEC_RESULTS"].to_s.empty? || !ENV[OWNER].to_s.empty?

      waiting = TracePoint.new(:end) do |point|
        begin
          if point.self.name == "RSpec::Core::Reporter"
            waiting.disable
            point.self.send(:prepend, Reporting)
          end
        rescue StandardError
          nil
        end
      end
      waiting.enable
    end

    # Returns what writes one record; nil where another run already reports.
    def open_file
      return @emit if @emit && @pid == Process.pid
      return if @pid || !ENV[OWNER].to_s.empty? || ::RSpec.configuration.dry_run?

      require "json"
      now = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
      name = format("%020d-%d-rspec.jsonl", now, Process.pid)
      flags = File::WRONLY | File::CREAT | File::EXCL | File::APPEND
      file = File.open(File.join(ENV["LOOPEXEC_RESULTS"], name), flags, 0o644)
      file.sync = true
      ENV[OWNER] = Process.pid.to_s
      @pid = Process.pid
      pid = @pid
      # Taken now: code under test may exchange both.
      write = file.method(:syswrite)
      current = Process.method(:pid)
      @emit = lambda do |record|
        begin
          write.call("#{JSON.generate(clean(record))}\n") if current.call == pid
        rescue StandardError
          nil
        end
      end
      @emit.call("k" => "start", "runner" => "rspec", "cwd" => Dir.pwd)
      @emit
    rescue StandardError
      nil
    end

    def clean(value)
      case value
      when Hash then value.each_with_object({}) { |(key, one), all| all[key] = clean(one) }
      when Array then value.map { |one| clean(one) }
      when String
        text = value.dup.force_encoding(Encoding::UTF_8).scrub("\u{fffd}")
        text.length > 6000 ? "#{text[0, 4000]}\n[...]\n#{text[-1900, 1900]}" : text
      else value
      end
    end
  end

  install
end
