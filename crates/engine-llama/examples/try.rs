use transom_engine::*;
use transom_engine_llama::LlamaEngine;
fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap();
    let threads: usize = args.next().unwrap().parse().unwrap();
    let ctx: usize = args.next().unwrap().parse().unwrap();
    let small = args.next().unwrap() == "small";
    let spec = args.next().unwrap() == "spec";
    tracing_subscriber::fmt().with_env_filter(std::env::var("L").unwrap_or_default()).init();
    let e = LlamaEngine::new().with_threads(threads);
    let src = ModelSource { path: path.into() };
    let lim = Limits { context_length: ctx, small_kv_cache: small, ..Limits::default() };
    println!("{:?}", e.memory_need(&src, &lim));
    let mut m = e.load_model(&src, &lim, &JobControl::new(), &mut |p| println!("{p:?}")).unwrap();
    println!("{:#?} {:?}", m.info(), m.memory());
    for q in ["What is the capital of France?", "What can you do?", "Repeat after me: one two three four five six seven."] {
        let p = m.prepare(&Prompt::Chat(ChatPrompt { messages: vec![Message::new(Role::User, q)], ..Default::default() })).unwrap();
        println!("{} tokens, sys {}", p.tokens.len(), p.system_tokens);
        let mut params = GenerationParams { speculate: spec, ..Default::default() };
        params.sampling.temperature = 0.0;
        let (r, s) = m.generate(&p, &params, &JobControl::new(), &mut |e: TokenEvent| if let TokenEvent::Text { text, .. } = e { print!("{text}") }).unwrap();
        println!("\n{r:?} {s:?} pp {:?} tg {:?}", s.prefill_tokens_per_second(), s.decode_tokens_per_second());
    }
    for (n, t2) in [(512, 128), (1500, 128)] {
        let toks: Vec<u32> = (0..n).map(|i| (i * 7919 + n) % 8000).collect();
        if n as usize + t2 > m.info().context_length { continue; }
        for _ in 0..3 {
            m.trim(Trim::Everything);
            let p = m.prepare(&Prompt::Tokens(toks.clone())).unwrap();
            let mut params = GenerationParams { speculate: spec, max_tokens: Some(t2), ignore_end_of_text: true, ..Default::default() };
            params.sampling.temperature = 0.0;
            let (_, s) = m.generate(&p, &params, &JobControl::new(), &mut |_e: TokenEvent| ()).unwrap();
            println!("pp{n} {:.0} tg{t2} {:.1} drafted {} accepted {}", s.prefill_tokens_per_second().unwrap(), s.decode_tokens_per_second().unwrap(), s.drafted_tokens, s.accepted_tokens);
        }
    }
    println!("{:?}", m.memory());
}
