"""Spanish."""

from __future__ import annotations

from steadyhand.language.lexicon import Mark, lexicon

SPANISH = lexicon(
    "es",
    closed="""
    yo tú él ella usted nosotros nosotras vosotros ellos ellas ustedes me te se nos os le les lo la los las el un una
    unos unas mi mis tu tus su sus nuestro nuestra nuestros vuestro vuestra este esta estos estas ese esa esos esas
    esto eso todo toda todos todas algo alguien que quien soy eres es somos son era eran fue fueron estoy está estás
    estamos están estaba estado ser estar he has ha hemos han había haber hay tengo tiene tenía y e o u de del a al en
    con por para sobre muy tan más también ya ahora como así cada
    """,
    content="""
    problema problemas asunto pregunta preguntas pedido cuenta ayuda ayudado ayudó ayudar ayudarme respuesta
    respuestas respondido solución soluciones funciona funcionó funcionando sirve sirvió soporte servicio equipo
    información explicación factura pago reembolso paquete entrega tiempo paciencia recibido recibí entendido entiendo
    sé exactamente claro clara completamente totalmente absolutamente realmente finalmente rápido rápida rápidamente
    hoy mucho mucha muchas muchos mil hola adiós día días tarde tardes noche buen buena bueno buenas buenos amable
    amables útil útiles eficaz genial perfecto perfecta perfectamente excelente maravilloso maravillosa estupendo
    estupenda fantástico fantástica fenomenal increíble súper super vale ok bien sí gracias agradezco agradecido
    agradecida contento contenta feliz satisfecho satisfecha encantado encantada aliviado aliviada resuelto resuelta
    resolvió solucionado solucionada solucionó arreglado arreglada arregló listo lista hecho llegado llegó encontrado
    quería buscaba necesitaba trabajo siga sigue estos pasos favor
    """,
    asked="qué cómo cuándo dónde quién quiénes cuál cuáles cuánto cuánta adónde",
    marks={
        Mark.NEGATION: """
        no; nunca; jamás; nada; nadie; ningún; ninguna; ninguno; tampoco; ni; sin; apenas; poco; menos; imposible;
        falló; falla; fallado; fallo; lejos de; todo menos; contrario; dudo; duda; falta; en vez; en lugar; contra;
        cero; evite; evitar; deje; dejen; incapaz; negativo; niego; negó
        """,
        Mark.CONDITION: "si; cuando; siempre que; en caso; a menos que; salvo; sino; mientras; con tal; en cuanto",
        Mark.WISH: """
        espero; esperamos; esperaba; ojalá; deseo; desearía; quisiera; querría; gustaría; quiero; sería; estaría;
        habría; hubiera; hubiese; fuera; debería; deberían; de antemano; antemano; necesito; necesitamos; quieren;
        pretendo
        """,
        Mark.CONTRAST: """
        pero; sin embargo; aunque; no obstante; a pesar; pese; mas; excepto; solo; sólo; solamente; todavía; aún;
        al menos; en cambio; mientras que; lástima; lamentablemente; desgraciadamente; sigue; siguen; por lo menos
        """,
        Mark.REPORT: """
        dijo; dijeron; dice; dicen; decir; dicho; dijiste; dices; diciendo; afirma; afirman; prometió; prometieron;
        promete; según; supuestamente; asegura; aseguró; creía; pensaba; pensé; creo; llaman; llamas; oí; pretende;
        cree; creen; preguntó; alega; presunto
        """,
        Mark.HEDGE: """
        quizás; quizá; tal vez; posiblemente; probablemente; podría; podrían; puede; pueden; parece; parecía; casi;
        medio; parcialmente; algo; a veces; más o menos; aproximadamente; intento; intente; intentar; intentado; voy;
        va; vamos; van; será; serán; supongo; imagino; considere
        """,
        Mark.DELAY: """
        mañana; luego; más tarde; hasta; pronto; esperar; espere; esperando; lunes; martes; miércoles; jueves;
        viernes; sábado; domingo; próxima; próximo; semana que viene; después; algún día; de momento; por ahora
        """,
        Mark.IRONY: """
        bravo; felicidades; enhorabuena; claro que sí; por supuesto; como siempre; qué; vaya; menudo; menuda; jaja;
        jajaja; lol; wow; sí claro; ja; obviamente; gracias a; encima; otra vez; de nuevo; cómo no; típico; anda
        """,
        Mark.RETRACTION: """
        olvide; olvídelo; olvida; olvídalo; olvídate; ignore; ignora; cancele; cancela; equivoqué; equivocado; error;
        innecesario; no hace falta; ya no; en realidad; retiro; corrección; falsa alarma; cambié; mejor no; déjelo;
        déjalo
        """,
    },
)
